/*
 * flash_maxsim.c
 *		The module: its settings, and what it does while it is preloaded.
 */
#include "postgres.h"
#include "compat.h"

#include "batch.h"
#include "batch_scan.h"
#include "cache.h"
#include "engine_gpu.h"
#include "scorer.h"
#include "source.h"
#include "../scorer/device_list.h"
#include "stats.h"

MAXSIM_MODULE_MAGIC("flash_maxsim", "1.0.0");

void _PG_init(void);

static const struct config_enum_entry engine_choices[] = {
	{"auto", ENGINE_AUTO, false},
	{"cpu", ENGINE_CPU, false},
	{"cuda", ENGINE_CUDA, false},
	{NULL, 0, false}};

static const struct config_enum_entry scorer_engines[] = {
	{"cuda", SCORER_ENGINE_CUDA, false},
	{"cpu", SCORER_ENGINE_CPU, false},
	{"off", SCORER_ENGINE_OFF, false},
	{NULL, 0, false}};

#define DEVICES_DETAIL "It must be \"all\", or at most %d device numbers such as \"0,2\"."

static bool
check_devices(char **newval, void **extra, GucSource source)
{
	int numbers[SCORER_MAX_DEVICES];

	(void) extra;
	(void) source;
	if (scorer_read_devices(*newval, numbers) >= 0)
		return true;
	GUC_check_errdetail(DEVICES_DETAIL, SCORER_MAX_DEVICES);
	return false;
}

/*
 * Of a value in the configuration file that is wrong PostgreSQL would only warn when
 * the setting is defined, and go on with the default: all GPUs, where somebody meant
 * to leave some alone.
 */
static void
refuse_malformed_devices(void)
{
	const char *list = GetConfigOption("flash_maxsim.devices", true, false);
	int numbers[SCORER_MAX_DEVICES];

	if (list != NULL && scorer_read_devices(list, numbers) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "flash_maxsim.devices", list),
				 errdetail(DEVICES_DETAIL, SCORER_MAX_DEVICES)));
}

/* Settings that shape shared memory and the scorer: fixed when the server starts. */
static void
define_scorer_settings(void)
{
	/*
	 * cpu runs the whole way to the scorer and back without a GPU, which is for
	 * tests.  off starts no process and reserves no memory.
	 */
	DefineCustomEnumVariable("flash_maxsim.scorer_engine",
							 "The engine of the scorer process: cuda, cpu (for tests) or off.",
							 NULL, &maxsim_scorer_engine, SCORER_ENGINE_CUDA, scorer_engines,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);

	refuse_malformed_devices();
	DefineCustomStringVariable("flash_maxsim.devices",
							   "The GPUs that the scorer uses: all, or a list of device numbers.",
							   NULL, &maxsim_devices, "all", PGC_POSTMASTER, 0, check_devices, NULL, NULL);

	/* a rerank uses two, so that one is filled while the other is scored */
	DefineCustomIntVariable("flash_maxsim.slots",
							"The number of batches that can be on their way to the scorer at once.",
							NULL, &maxsim_slots, 32, 2, 4096, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	/*
	 * Slots are pinned memory.  A larger slot makes fewer and larger launches; a
	 * document that does not fit into one is scored by the CPU.
	 */
	DefineCustomIntVariable("flash_maxsim.slot_size",
							"The memory of a slot for a query and its documents.",
							NULL, &maxsim_slot_size, 4096, 1024, 1024 * 1024, PGC_POSTMASTER,
							GUC_UNIT_KB, NULL, NULL, NULL);
}

void
_PG_init(void)
{
	/*
	 * A user sets it for a session, or for a role or database, and then passes
	 * ids alone.  What it names is only looked for when a function is called: the
	 * relation may not exist yet when it is set.
	 */
	DefineCustomStringVariable("flash_maxsim.source",
							   "The source that documents are read from where a function is given none.",
							   "Written as table(id_column, document_column).",
							   &maxsim_source, "", PGC_USERSET, 0, source_check_setting, NULL, NULL);

	/*
	 * Small enough for a core's second-level cache, so that documents are scored
	 * where they have just been written.
	 */
	DefineCustomIntVariable("flash_maxsim.batch_size",
							"Memory for the documents that are gathered before they are scored.",
							"A longer document is scored in slices.",
							&maxsim_batch_size, MAXSIM_BATCH_SIZE_DEFAULT, MAXSIM_BATCH_SIZE_MIN,
							1024 * 1024, PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);

	/*
	 * auto uses the scorer where that is faster and the CPU where the scorer is not
	 * there; cuda uses the scorer and is an error where it is not there.
	 */
	DefineCustomEnumVariable("flash_maxsim.engine",
							 "What computes scores: auto, cpu or cuda.",
							 NULL, &maxsim_engine, ENGINE_AUTO, engine_choices,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	/* what it changes is how fast a plan is, and, where the GPU scores, the last bits */
	DefineCustomBoolVariable("flash_maxsim.enable_batch_scan",
							 "Whether plans score maxsim() in batches.",
							 NULL, &maxsim_enable_batch_scan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	batch_scan_install();

	if (process_shared_preload_libraries_in_progress)
	{
		define_scorer_settings();
		cache_define_settings();
		scorer_preload();
		stats_preload();
	}

	MarkGUCPrefixReserved("flash_maxsim");
}
