/*
 * connection.h
 *		Serving one backend.
 */
#ifndef MAXSIM_SCORER_CONNECTION_H
#define MAXSIM_SCORER_CONNECTION_H

#include "device.h"

/*
 * Serves the backend at the other end of a connected socket in a thread of its
 * own, until it hangs up.  False: no thread could be had.
 */
extern bool scorer_serve(int socket, ScorerMapping *mapping, uint32_t incarnation, const ScorerDevice *device);

#endif /* MAXSIM_SCORER_CONNECTION_H */
