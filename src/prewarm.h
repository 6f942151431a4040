/*
 * prewarm.h
 *		Loading documents into the cache before they are asked for: on request, and
 *		those of before after a restart of the server.
 */
#ifndef MAXSIM_PREWARM_H
#define MAXSIM_PREWARM_H

#include "cache_load.h"

/* flash_maxsim.autoprewarm, flash_maxsim.autoprewarm_interval in seconds */
extern bool maxsim_autoprewarm;
extern int maxsim_autoprewarm_interval;

/*
 * A load that other sessions can see, while there is room for it among those that are
 * shown.
 *
 * progress_shared_size, progress_start		For the library's start.
 * progress_begin	Shows a load; total documents are expected, 0: not known.
 * progress_update	Its counts of now.
 * progress_end		It is not shown any more.  Does nothing without a progress_begin.
 */
typedef struct PrewarmProgress PrewarmProgress;

extern Size progress_shared_size(void);
extern void progress_start(void);
extern PrewarmProgress *progress_begin(const char *source, uint64 total);
extern void progress_update(PrewarmProgress *progress, const CacheLoad *load);
extern void progress_end(PrewarmProgress *progress);

/*
 * For the cache's worker: autoprewarm_begin, when it has started; autoprewarm_tick, now
 * and then, soon again if it returns true.  The list is written there, and at the
 * worker's exit.
 */
extern void autoprewarm_begin(void);
extern bool autoprewarm_tick(void);

extern PGDLLEXPORT void autoprewarm_main(Datum arg);

#endif /* MAXSIM_PREWARM_H */
