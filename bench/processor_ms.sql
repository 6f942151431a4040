-- Milliseconds of a processor that this backend has used, so that what else runs on the
-- machine does not count; where the system does not tell, those of the clock.  Linux brings
-- the second file up to date when the first one is read.
CREATE OR REPLACE FUNCTION processor_ms() RETURNS double precision
	LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	used text;
BEGIN
	PERFORM pg_read_file('/proc/self/stat', 0, 10000, true);
	used := pg_read_file('/proc/self/schedstat', 0, 10000, true);
	IF used IS NULL THEN
		RETURN extract(epoch FROM clock_timestamp()) * 1000;
	END IF;
	RETURN split_part(used, ' ', 1)::double precision / 1e6;
END
$$;
