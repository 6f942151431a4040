/*
 * cache_settings.c
 *		The settings of the document cache, and how much memory they stand for.
 */
#include "postgres.h"
#include "compat.h"

#include <unistd.h>

#include "cache_internal.h"
#include "prewarm.h"

int maxsim_host_cache_size = 0;
char *maxsim_gpu_cache_size = NULL;
int maxsim_cache_documents = 0;

#define MEGABYTE ((uint64) 1024 * 1024)
#define MAX_PERCENT 95

/* What the scorer is told: bytes, or a share with a percent sign; false: not understood. */
static bool
parse_gpu_cache_size(const char *value, char *argument, Size size, const char **hint)
{
	int number;
	long share;

	*hint = NULL;
	if (pg_strcasecmp(value, "off") == 0)
		number = 0;
	else if (value[0] != '\0' && value[strlen(value) - 1] == '%')
	{
		char *end;

		share = strtol(value, &end, 10);
		if (end != value + strlen(value) - 1 || share < 1 || share > MAX_PERCENT)
			return false;
		snprintf(argument, size, "%ld%%", share);
		return true;
	}
	else if (!parse_int(value, &number, GUC_UNIT_MB, hint) || number < 0)
		return false;
	snprintf(argument, size, UINT64_FORMAT, number * MEGABYTE);
	return true;
}

static bool
check_gpu_cache_size(char **value, void **extra, GucSource source)
{
	char argument[32];
	const char *hint;

	(void) extra;
	(void) source;
	if (parse_gpu_cache_size(*value, argument, sizeof(argument), &hint))
		return true;
	GUC_check_errdetail("It is \"off\", a size like \"20GB\", or a share of each GPU's memory from \"1%%\" to \"%d%%\".", MAX_PERCENT);
	if (hint != NULL)
		GUC_check_errhint("%s", _(hint));
	return false;
}

const char *
cache_scorer_argument(void)
{
	static char argument[32];
	const char *hint;

	if (maxsim_gpu_cache_size == NULL ||
		!parse_gpu_cache_size(maxsim_gpu_cache_size, argument, sizeof(argument), &hint))
		strcpy(argument, "0");
	return argument;
}

uint64
cache_host_bytes(void)
{
	return maxsim_host_cache_size * MEGABYTE;
}

uint64
cache_available_memory(void)
{
	unsigned long long kilobytes = 0;
#ifdef __linux__
	FILE *file = fopen("/proc/meminfo", "r");
	char line[256];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
			break;
	}
	if (file != NULL)
		fclose(file);
#endif
	return kilobytes * 1024;
}

void
cache_define_settings(void)
{
	/*
	 * Memory of the host, pinned where there is a GPU.  Off unless asked for: on a
	 * database server memory has other uses.
	 */
	DefineCustomIntVariable("flash_maxsim.host_cache_size",
							"Memory of the host for documents that were fetched before; 0 is off.",
							NULL, &maxsim_host_cache_size, 0, 0, 16 * 1024 * 1024, PGC_POSTMASTER,
							GUC_UNIT_MB, NULL, NULL, NULL);

	/* Of each GPU.  Others may use it too, so that not all of it is taken. */
	DefineCustomStringVariable("flash_maxsim.gpu_cache_size",
							   "Memory of each GPU for documents that were fetched before: off, a size, or a share like 50%.",
							   NULL, &maxsim_gpu_cache_size, "25%", PGC_POSTMASTER, 0,
							   check_gpu_cache_size, NULL, NULL);

	/* an entry takes less than 100 bytes of shared memory */
	DefineCustomIntVariable("flash_maxsim.cache_documents",
							"The most documents that the cache knows; 0 derives it from the sizes.",
							NULL, &maxsim_cache_documents, 0, 0, 1 << 28, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	/* off: who warms the cache after a restart takes part of the disk's time from others */
	DefineCustomBoolVariable("flash_maxsim.autoprewarm",
							 "Whether the documents that the cache had are loaded again after a restart.",
							 NULL, &maxsim_autoprewarm, false, PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("flash_maxsim.autoprewarm_interval",
							"How often the documents that the cache has are listed for that; 0: at the server's end only.",
							NULL, &maxsim_autoprewarm_interval, 300, 0, INT_MAX / 1000, PGC_SIGHUP,
							GUC_UNIT_S, NULL, NULL, NULL);
}

bool
cache_configured(void)
{
	return maxsim_host_cache_size > 0 ||
		   (maxsim_scorer_engine != SCORER_ENGINE_OFF && strcmp(cache_scorer_argument(), "0") != 0);
}
