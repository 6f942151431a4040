/*
 * batch_documents.h
 *		Where the documents of a plan come from.
 */
#ifndef MAXSIM_BATCH_DOCUMENTS_H
#define MAXSIM_BATCH_DOCUMENTS_H

#include "nodes/plannodes.h"

/*
 * Whether a document, or another value, that a plan computes by this expression, of a statement with these
 * subplans, may be gone when the next row is computed.  One of a table that the plan scans
 * stays; what a volatile function returns may point into a table that the function empties
 * or drops at its next call.
 */
extern bool document_may_go(Node *document, const Plan *plan, const List *subplans);

#endif /* MAXSIM_BATCH_DOCUMENTS_H */
