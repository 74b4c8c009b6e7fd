/* Descriptors of processes (pidfd.c). */
#ifndef HARENA_PROC_PIDFD_H
#define HARENA_PROC_PIDFD_H

#include "base/types.h"

struct file;
struct task;
struct tgroup;

struct file *pidfd_new(struct tgroup *tg, u32 flags); /* O_NONBLOCK; tasklist_lock not held, tg cannot go (a child being made) */
bool file_is_pidfd(const struct file *f);
u32 pidfd_pid(const struct file *f); /* of a process that may be gone: 0 */
/* procfs: the process whose directory /proc/PID a file is, else 0. tasklist_lock held. */
void pidfd_know_directories(u32 (*of)(const struct file *f));
void pidfd_ended_locked(struct tgroup *tg); /* a zombie now: wakes pollers */
void pidfd_gone_locked(struct tgroup *tg); /* reaped */

#endif
