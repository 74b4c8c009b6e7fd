/* O_ASYNC: see fasync.c. */
#ifndef HARENA_PROC_FASYNC_H
#define HARENA_PROC_FASYNC_H

void fasync_init(void);
void fasync_service(void); /* init's service thread */

#endif
