/* sql/flash_maxsim_pgvector--1.0.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION flash_maxsim_pgvector" to load this file. \quit

-- While this script runs, the schemas of the extensions that it requires are in the
-- search_path, after the one in which it makes its functions.  A type of that schema with
-- the same name would be taken for theirs.
DO $$
DECLARE
	type text;
	extension text;
BEGIN
	FOR type, extension IN VALUES ('multivec', 'flash_maxsim'), ('vector', 'vector'), ('halfvec', 'vector') LOOP
		IF to_regtype(type) IS NULL THEN
			RAISE EXCEPTION 'extension % has no type %', extension, type
				USING HINT = 'flash_maxsim_pgvector needs pgvector 0.7 or newer: ALTER EXTENSION vector UPDATE.';
		END IF;
		IF NOT EXISTS (SELECT 1 FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
					   WHERE d.classid = 'pg_type'::regclass AND d.objid = to_regtype(type)
					   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = extension) THEN
			RAISE EXCEPTION 'type % is not that of extension %', to_regtype(type), extension
				USING HINT = 'Choose another schema: CREATE EXTENSION flash_maxsim_pgvector SCHEMA ...';
		END IF;
	END LOOP;
END $$;

CREATE FUNCTION multivec(vector[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_vector_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(vector[]) IS 'a token of each vector, in format f32; an error if they differ in dimension, or one is NULL';

CREATE FUNCTION multivec(halfvec[]) RETURNS multivec
	AS 'MODULE_PATHNAME', 'multivec_from_halfvec_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec(halfvec[]) IS 'a token of each vector, in format f16; an error if they differ in dimension, or one is NULL';

CREATE FUNCTION multivec_to_vector_array(multivec) RETURNS vector[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_to_vector_array(multivec) IS 'a vector of each token, every element exact; at most 16000 dimensions';

CREATE FUNCTION multivec_to_halfvec_array(multivec) RETURNS halfvec[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION multivec_to_halfvec_array(multivec) IS 'a halfvec of each token, exact from format f16, rounded from others; out of range if an element does not fit; at most 16000 dimensions';

CREATE CAST (vector[] AS multivec) WITH FUNCTION multivec(vector[]) AS IMPLICIT;
COMMENT ON CAST (vector[] AS multivec) IS 'a token of each vector, in format f32';
CREATE CAST (halfvec[] AS multivec) WITH FUNCTION multivec(halfvec[]) AS IMPLICIT;
COMMENT ON CAST (halfvec[] AS multivec) IS 'a token of each vector, in format f16';
CREATE CAST (multivec AS vector[]) WITH FUNCTION multivec_to_vector_array(multivec) AS ASSIGNMENT;
COMMENT ON CAST (multivec AS vector[]) IS 'a vector of each token';
CREATE CAST (multivec AS halfvec[]) WITH FUNCTION multivec_to_halfvec_array(multivec) AS ASSIGNMENT;
COMMENT ON CAST (multivec AS halfvec[]) IS 'a halfvec of each token, rounded to half precision';
