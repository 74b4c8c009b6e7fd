/* A small stand-in for the rest of the kernel under tests of ipc/, net/ and tty/: tasks are threads, guest memory is the
 * test's own, files are the plainest that work. Output is TAP. */
#ifndef HARENA_TESTS_IPC_FAKE_H
#define HARENA_TESTS_IPC_FAKE_H

#include "vfs/vfs.h"

#define U(p) ((u64)(p))

void fake_init(void);
/* Runs fn(arg) as another task; fake_join waits for its end. */
void *fake_spawn(void (*fn)(void *), void *arg);
void fake_join(void *task);
void fake_sleep_ms(u32 ms);
void fake_interrupt(void *task); /* NULL: the calling task's next sleep is interrupted */
int fake_signal_taken(void); /* the last signal sent to anybody, then forgotten */
u32 fake_signal_pgrp(void);
void fake_session(u32 sid, u32 pgrp, bool orphaned);
u64 fake_live_files(void);
u64 fake_live_bytes(void); /* kmalloc'd */
u32 fake_doorbells(void);
void fake_pend(int sig); /* a signal waits for the calling task */
void fake_set_doorbell(void (*fn)(void));

void tap_check(bool ok, const char *what, const char *file, int line);
int tap_end(void);
void tap_group(const char *name);
#define CHECK(c) tap_check((c), #c, __FILE__, __LINE__)
#define CHECK_EQ(a, b) tap_equal((long)(a), (long)(b), #a " == " #b, __FILE__, __LINE__)
void tap_equal(long a, long b, const char *what, const char *file, int line);

#define SYS(n) long sys_##n(u64, u64, u64, u64, u64, u64)
#define call0(n) sys_##n(0, 0, 0, 0, 0, 0)
#define call1(n, a) sys_##n(U(a), 0, 0, 0, 0, 0)
#define call2(n, a, b) sys_##n(U(a), U(b), 0, 0, 0, 0)
#define call3(n, a, b, c) sys_##n(U(a), U(b), U(c), 0, 0, 0)
#define call4(n, a, b, c, d) sys_##n(U(a), U(b), U(c), U(d), 0, 0)
#define call5(n, a, b, c, d, e) sys_##n(U(a), U(b), U(c), U(d), U(e), 0)
#define call6(n, a, b, c, d, e, f) sys_##n(U(a), U(b), U(c), U(d), U(e), U(f))

/* read, write, close, ioctl and fcntl's O_NONBLOCK on descriptors, as vfs would do them. */
long t_read(int fd, void *p, u64 n);
long t_write(int fd, const void *p, u64 n);
long t_close(int fd);
long t_ioctl(int fd, u32 cmd, void *arg);
void t_nonblock(int fd, bool on);
u32 t_poll(int fd, u32 events); /* without waiting */

#endif
