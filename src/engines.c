/*
 * engines.c
 *		The SQL functions that show what computes: maxsim_engines and maxsim_scorer.
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "utils/builtins.h"

#include "engine_gpu.h"
#include "scorer.h"

/* One row of maxsim_engines; device NULL where there is none. */
static void
put_engine(ReturnSetInfo *rsinfo, const char *engine, const char *device, bool available, bool active,
		   const char *detail)
{
	Datum values[5] = {CStringGetTextDatum(engine), (Datum) 0, BoolGetDatum(available), BoolGetDatum(active),
					   CStringGetTextDatum(detail)};
	bool nulls[5] = {false, device == NULL, false, false, false};

	if (device != NULL)
		values[1] = CStringGetTextDatum(device);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* A copy of the control structure's state, taken under its lock. */
static ScorerControl
scorer_state(void)
{
	ScorerControl copy = {0};

	if (scorer_control == NULL)
	{
		copy.state = SCORER_UNAVAILABLE;
		strlcpy(copy.reason, scorer_absence(), sizeof(copy.reason));
		return copy;
	}
	SpinLockAcquire(&scorer_control->mutex);
	memcpy(&copy, scorer_control, offsetof(ScorerControl, incarnation));
	SpinLockRelease(&scorer_control->mutex);
	return copy;
}

/*
 * maxsim_engines(): every engine that there could be, whether it can run here, and
 * which ones score: the CPU's for small work, and where there is no other.
 */
PG_FUNCTION_INFO_V1(maxsim_engines);
Datum
maxsim_engines(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const MaxsimEngine *cpu = maxsim_cpu_engine();
	const MaxsimEngine *engine;
	ScorerControl scorer = scorer_state();
	bool supported;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; (engine = maxsim_cpu_engine_at(i, &supported)) != NULL; i++)
		put_engine(rsinfo, "cpu", engine->name, supported, engine == cpu,
				   engine == cpu ? "scores in the backend"
				   : supported   ? "a better instruction set is in use"
								 : "the processor or the operating system does not support it");
	if (scorer.state != SCORER_READY)
		put_engine(rsinfo, "cuda", NULL, false, false, scorer.reason);
	else
	{
		/* in tests the scorer has the CPU engine */
		for (int i = 0; i < scorer.ndevices; i++)
			put_engine(rsinfo, "cuda", scorer.devices[i], true, maxsim_engine != ENGINE_CPU,
					   psprintf("scores in process %d by engine %s", (int) scorer.pid, scorer.engine));
	}
	return (Datum) 0;
}

/* maxsim_scorer(): the scorer's state, its slots, and what it did since the start. */
PG_FUNCTION_INFO_V1(maxsim_scorer);
Datum
maxsim_scorer(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"starting", "ready", "restarting", "unavailable"};
	ScorerControl scorer = scorer_state();
	TupleDesc tupdesc;
	Datum values[12] = {0};
	bool nulls[12] = {false};
	int n = 0;
	int free_slots = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int i = 0; scorer_mapping != NULL && i < (int) scorer_mapping->nslots; i++)
		free_slots += SLOT_STATE(atomic_load(&scorer_slot(scorer_mapping, i)->word)) == SLOT_FREE;

	values[n++] = CStringGetTextDatum(states[scorer.state]);
	values[n++] = CStringGetTextDatum(scorer.reason);
	nulls[n] = scorer.pid == 0;
	values[n++] = Int32GetDatum(scorer.pid);
	values[n++] = Int32GetDatum(scorer_control ? (int) pg_atomic_read_u32(&scorer_control->incarnation) : 0);
	values[n++] = Int32GetDatum(scorer_mapping ? scorer_mapping->nslots : 0);
	values[n++] = Int32GetDatum(free_slots);
	values[n++] = Int64GetDatum(scorer_control ? pg_atomic_read_u64(&scorer_control->batches) : 0);
	values[n++] = Int64GetDatum(scorer_control ? pg_atomic_read_u64(&scorer_control->documents) : 0);
	for (int i = 0; i < NUM_FALLBACKS; i++)
		values[n++] = Int64GetDatum(scorer_control ? pg_atomic_read_u64(&scorer_control->fallbacks[i]) : 0);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
