/*
 * prewarm.h
 *		Loading documents into the cache before they are asked for.
 */
#ifndef MAXSIM_PREWARM_H
#define MAXSIM_PREWARM_H

#include "cache_load.h"

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

#endif /* MAXSIM_PREWARM_H */
