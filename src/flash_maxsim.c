/*
 * flash_maxsim.c
 *		The module: its settings, and the SQL function that shows its engines.
 */
#include "postgres.h"
#include "compat.h"

#include "utils/builtins.h"

#include "batch.h"
#include "engine.h"
#include "source.h"

MAXSIM_MODULE_MAGIC("flash_maxsim", "0.1.0");

void _PG_init(void);

void
_PG_init(void)
{
	/*
	 * A user sets it for a session, or for a role or database, and then passes
	 * ids alone.  It is only looked at when a function is called: the relation
	 * may not exist yet when it is set.
	 */
	DefineCustomStringVariable("flash_maxsim.source",
							   "The source that documents are read from where a function is given none.",
							   "Written as table(id_column, document_column).",
							   &maxsim_source, "", PGC_USERSET, 0, NULL, NULL, NULL);

	/*
	 * Small enough for a core's second-level cache, so that documents are scored
	 * where they have just been written.
	 */
	DefineCustomIntVariable("flash_maxsim.batch_size",
							"Memory for the documents that are gathered before they are scored.",
							"A longer document is scored in slices.",
							&maxsim_batch_size, MAXSIM_BATCH_SIZE_DEFAULT, MAXSIM_BATCH_SIZE_MIN,
							1024 * 1024, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);

	MarkGUCPrefixReserved("flash_maxsim");
}

/*
 * maxsim_engines(): every engine that was built, whether it can run here, and
 * which one scores.
 */
PG_FUNCTION_INFO_V1(maxsim_engines);
Datum
maxsim_engines(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const MaxsimEngine *active = maxsim_cpu_engine();
	const MaxsimEngine *engine;
	bool supported;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; (engine = maxsim_cpu_engine_at(i, &supported)) != NULL; i++)
	{
		Datum values[5];
		bool nulls[5] = {false, false, false, false, false};

		values[0] = CStringGetTextDatum("cpu");
		values[1] = CStringGetTextDatum(engine->name);
		values[2] = BoolGetDatum(supported);
		values[3] = BoolGetDatum(engine == active);
		values[4] = CStringGetTextDatum(engine == active ? "scores in the backend"
										: supported      ? "a better instruction set is in use"
														 : "the processor or the operating system does not support it");
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
