/* Threads: pthread basics, futex operations, robust and PI mutexes, tid handling, cancellation, membarrier. */
#include "tap.h"
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/resource.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
static long futex(void *a, int op, long v, void *t, void *b, long v3) { return syscall(SYS_futex, a, op, v, t, b, v3); }
static uint32_t word, word2;
static volatile int flag, count;

static void *returns(void *a) { return a; }
static void *exits(void *a)
{
    pthread_exit((char *)a + 1);
}
static void *wait_word(void *a)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    long r = futex(a, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return (void *)(r == 0 ? 0l : (long)errno);
}
static void *wait_bits(void *a)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    long r = futex(&word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, (long)a);
    return (void *)r;
}
static void until(int n)
{
    for (int i = 0; i < 1000 && count < n; i++)
        sleep_ms(1);
    sleep_ms(30);
}

static void basics(void)
{
    pthread_t t[50];
    void *r;
    is(pthread_create(&t[0], NULL, returns, (void *)5), 0, "pthread_create");
    pthread_join(t[0], &r);
    is((long)r, 5, "join");
    pthread_create(&t[0], NULL, exits, (void *)5);
    pthread_join(t[0], &r);
    is((long)r, 6, "pthread_exit");
    int bad = 0;
    for (int i = 0; i < 50; i++)
        bad += pthread_create(&t[i], NULL, returns, (void *)(long)i) != 0;
    for (long i = 0; i < 50; i++)
        bad += pthread_join(t[i], &r) != 0 || (long)r != i;
    is(bad, 0, "fifty threads");
    pid_t main_tid = (pid_t)syscall(SYS_gettid), tid = 0;
    is(main_tid, getpid(), "the first thread's tid is the pid");
    void *ids(void *a) { *(pid_t *)a = (pid_t)syscall(SYS_gettid); return (void *)(long)getpid(); }
    pthread_create(&t[0], NULL, ids, &tid);
    pthread_join(t[0], &r);
    ok(tid != main_tid && (long)r == getpid(), "others have another tid and the same pid");
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    sem_t s;
    sem_init(&s, 0, 0);
    void *posts(void *p) { sem_post(p); return NULL; }
    pthread_create(&t[0], &a, posts, &s);
    is(sem_wait(&s), 0, "a detached thread");
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static int sum;
    void *adds(void *p) { for (int i = 0; i < 20000; i++) { pthread_mutex_lock(p); sum++; pthread_mutex_unlock(p); } return NULL; }
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, adds, &m);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    is(sum, 80000, "mutex");
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    static int turn;
    void *pings(void *p)
    {
        (void)p;
        for (int i = 0; i < 500; i++) {
            pthread_mutex_lock(&m);
            while (turn != 1)
                pthread_cond_wait(&c, &m);
            turn = 0;
            pthread_cond_broadcast(&c);
            pthread_mutex_unlock(&m);
        }
        return NULL;
    }
    pthread_create(&t[0], NULL, pings, NULL);
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&m);
        while (turn != 0)
            pthread_cond_wait(&c, &m);
        turn = 1;
        pthread_cond_broadcast(&c);
        pthread_mutex_unlock(&m);
    }
    pthread_join(t[0], NULL);
    ok(true, "condition variables");
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_nsec += 20000000;
    if (ts.tv_nsec >= 1000000000)
        ts.tv_nsec -= 1000000000, ts.tv_sec++;
    pthread_mutex_lock(&m);
    is(pthread_cond_timedwait(&c, &m, &ts), ETIMEDOUT, "pthread_cond_timedwait");
    pthread_mutex_unlock(&m);
    void *forever(void *p) { for (;;) pause(); return p; }
    pthread_create(&t[0], NULL, forever, NULL);
    sleep_ms(10);
    is(pthread_cancel(t[0]), 0, "pthread_cancel");
    pthread_join(t[0], &r);
    ok(r == PTHREAD_CANCELED, "cancelled");
    void *spins(void *p) { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL); for (;;); return p; }
    pthread_create(&t[0], NULL, spins, NULL);
    sleep_ms(10);
    pthread_cancel(t[0]);
    pthread_join(t[0], &r);
    ok(r == PTHREAD_CANCELED, "cancelled while it runs");
    int st = in_child(pthread_t x; void *ex(void *p) { sleep_ms(20); exit((int)(long)p); } pthread_create(&x, NULL, ex, (void *)7); pause());
    is(st, 7 << 8, "exit of a thread ends the process");
    st = in_child(pthread_t x; void *ex(void *p) { sleep_ms(20); _exit((int)(long)p); } pthread_create(&x, NULL, ex, (void *)9); pthread_exit(NULL));
    is(st, 9 << 8, "a process goes on without its first thread");
    st = in_child(pthread_t x; pthread_create(&x, NULL, forever, NULL); sleep_ms(10); execl("/bin/sh", "sh", "-c", "exit 4", NULL));
    is(st, 4 << 8, "exec ends the other threads");
    st = in_child(pthread_t x; pid_t p = getpid(); void *ex(void *y) { char c[100]; snprintf(c, 100, "[ $$ = %d ] && exit 5", p); execl("/bin/sh", "sh", "-c", c, NULL); return y; }
                  pthread_create(&x, NULL, ex, NULL); pause());
    is(st, 5 << 8, "exec by another thread keeps the pid");
    st = in_child(pthread_t x; pthread_create(&x, NULL, forever, NULL); kill(getpid(), SIGKILL));
    is(st, SIGKILL, "SIGKILL ends all threads");
    pthread_key_t k;
    static int destroyed;
    void destroy(void *p) { destroyed += p != NULL; }
    pthread_key_create(&k, destroy);
    void *sets(void *p) { pthread_setspecific(k, p); return NULL; }
    pthread_create(&t[0], NULL, sets, &k);
    pthread_join(t[0], NULL);
    is(destroyed, 1, "thread-specific data");
    is(WEXITSTATUS(in_child(pthread_t x; void *f(void *p) { _exit(in_child(_exit(3)) == 3 << 8 ? 6 : 8); return p; } pthread_create(&x, NULL, f, NULL); pause())), 6, "fork by a thread");
}

static uint32_t waited[2];

static void *waits_for_one(void *p) { futex(&waited[0], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); return p; }

static void *waits_for_two(void *p)
{
    struct { uint64_t val, uaddr; uint32_t flags, reserved; } v[2] = {{0, (uintptr_t)&waited[0], 2 | 128, 0}, {0, (uintptr_t)&waited[1], 2 | 128, 0}};
    syscall(SYS_futex_waitv, v, 2, 0, NULL, 0);
    return p;
}

/* A process ends while its threads wait; the words are used again at once. */
static void ends_with_waiters(void)
{
    int wrong = 0;
    for (int i = 0; i < 30; i++) {
        pid_t c = fork();
        if (!c) {
            pthread_t t;
            pthread_create(&t, NULL, waits_for_one, NULL);
            pthread_create(&t, NULL, waits_for_two, NULL);
            struct timespec q = {0, i * 50000};
            nanosleep(&q, NULL);
            _exit(7);
        }
        int st = 0;
        waitpid(c, &st, 0);
        wrong += st != 7 << 8;
        wrong += futex(&waited[0], FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0) != 0;
    }
    is(wrong, 0, "processes that end while their threads wait");
}

static void futexes(void)
{
    pthread_t t[8];
    void *r;
    struct timespec ts = {0, 20000000}, bad = {0, 1000000000};
    word = 0;
    err(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), EAGAIN, "FUTEX_WAIT: another value");
    err(futex(&word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0), ETIMEDOUT, "FUTEX_WAIT: timeout");
    err(futex(&word, FUTEX_WAIT_PRIVATE, 0, &bad, NULL, 0), EINVAL, "FUTEX_WAIT: bad timeout");
    err(futex((char *)&word + 1, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0), EINVAL, "FUTEX_WAIT: not aligned");
    err(futex((void *)8, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0), EFAULT, "FUTEX_WAIT: bad address");
    err(futex(&word, 99, 0, NULL, NULL, 0), ENOSYS, "futex: unknown operation");
    is(futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 0, "FUTEX_WAKE: nobody");
    count = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, wait_word, &word);
    until(4);
    is(futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 1, "FUTEX_WAKE: one");
    is(futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0), 3, "FUTEX_WAKE: the rest");
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &r);
        is((long)r, 0, "woken");
    }
    count = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, wait_word, &word);
    until(4);
    is(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, &word2, 1), -1, "FUTEX_CMP_REQUEUE: another value");
    is(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, &word2, 0), 3, "FUTEX_CMP_REQUEUE: one woken, two moved");
    is(futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, -1, (void *)2, &word2, 0), -1, "FUTEX_CMP_REQUEUE: a negative count");
    is(futex(&word, FUTEX_REQUEUE_PRIVATE, 1, (void *)-1, &word2, 0), -1, "FUTEX_REQUEUE: a negative count");
    void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    err(futex(gone, FUTEX_WAKE, 1, NULL, NULL, 0), EFAULT, "FUTEX_WAKE, shared: memory that cannot be read");
    is(futex(gone, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 0, "FUTEX_WAKE, private: is not looked at");
    munmap(gone, 4096);
    is(futex(&word2, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0), 2, "the moved ones");
    is(futex(&word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0), 1, "the one left");
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    count = 0;
    pthread_create(&t[0], NULL, wait_bits, (void *)1);
    pthread_create(&t[1], NULL, wait_bits, (void *)2);
    until(2);
    is(futex(&word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 10, NULL, NULL, 4), 0, "FUTEX_WAKE_BITSET: other bits");
    is(futex(&word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 10, NULL, NULL, 2), 1, "FUTEX_WAKE_BITSET: the right bit");
    is(futex(&word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0), 1, "FUTEX_WAKE wakes any bits");
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    err(futex(&word, FUTEX_WAIT_BITSET, 0, NULL, NULL, 0), EINVAL, "FUTEX_WAIT_BITSET: no bits");
    err(futex(&word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0), EINVAL, "FUTEX_WAKE_BITSET: no bits");
    clock_gettime(CLOCK_MONOTONIC, &ts);
    err(futex(&word, FUTEX_WAIT_BITSET, 0, &ts, NULL, -1), ETIMEDOUT, "FUTEX_WAIT_BITSET: absolute time");
    clock_gettime(CLOCK_REALTIME, &ts);
    err(futex(&word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &ts, NULL, -1), ETIMEDOUT, "FUTEX_CLOCK_REALTIME");
    count = 0;
    word = word2 = 0;
    pthread_create(&t[0], NULL, wait_word, &word);
    pthread_create(&t[1], NULL, wait_word, &word2);
    until(2);
    is(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)), 2, "FUTEX_WAKE_OP: both");
    is(word2, 5, "FUTEX_WAKE_OP: added");
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    is(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2, FUTEX_OP(FUTEX_OP_OR, 2, FUTEX_OP_CMP_LT, 3)), 0, "FUTEX_WAKE_OP: or");
    is(word2, 7, "FUTEX_WAKE_OP: or: value");
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2, FUTEX_OP(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_GT, 3));
    is(word2, 6, "FUTEX_WAKE_OP: and not");
    futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &word2, FUTEX_OP((FUTEX_OP_XOR | 8), 4, FUTEX_OP_CMP_GT, 3));
    is(word2, 22, "FUTEX_WAKE_OP: xor with a shift");
    /* shared between processes */
    uint32_t *sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t c = fork();
    if (!c)
        _exit(futex(sh, FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 3 : 4);
    sleep_ms(40);
    is(futex(sh, FUTEX_WAKE, 1, NULL, NULL, 0), 1, "a shared futex");
    int st;
    waitpid(c, &st, 0);
    is(st, 3 << 8, "a shared futex: the other process");
    /* in private memory a fork's copy is another futex */
    word = 0;
    c = fork();
    if (!c) {
        struct timespec q = {0, 80000000};
        _exit(futex(&word, FUTEX_WAIT, 0, &q, NULL, 0) == -1 && errno == ETIMEDOUT ? 3 : 4);
    }
    sleep_ms(30);
    is(futex(&word, FUTEX_WAKE, 1, NULL, NULL, 0), 0, "private memory: not shared after fork");
    waitpid(c, &st, 0);
    is(st, 3 << 8, "private memory: timeout");
    /* waitv */
    struct futex_waitv { uint64_t val, uaddr; uint32_t flags, reserved; } v[2] = {{0, (uintptr_t)&word, 2 | 128, 0}, {0, (uintptr_t)&word2, 2 | 128, 0}};
    word2 = 0;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    err(syscall(SYS_futex_waitv, v, 2, 0, &ts, CLOCK_MONOTONIC), ETIMEDOUT, "futex_waitv: timeout");
    v[1].val = 5;
    err(syscall(SYS_futex_waitv, v, 2, 0, NULL, 0), EAGAIN, "futex_waitv: another value");
    v[1].val = 0;
    c = 0;
    void *wakes(void *p) { sleep_ms(40); futex(p, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); return NULL; }
    pthread_create(&t[0], NULL, wakes, &word2);
    ts.tv_sec += 5;
    is(syscall(SYS_futex_waitv, v, 2, 0, &ts, CLOCK_MONOTONIC), 1, "futex_waitv: the second");
    pthread_join(t[0], NULL);
    err(syscall(SYS_futex_waitv, v, 0, 0, NULL, 0), EINVAL, "futex_waitv: none");
    void on_usr1(int sig) {}
    pthread_t me = pthread_self();
    void *signals(void *p) { sleep_ms(40); pthread_kill(me, SIGUSR1); return NULL; }
    struct sigaction sa = {.sa_handler = on_usr1};
    sigaction(SIGUSR1, &sa, NULL);
    pthread_create(&t[0], NULL, signals, NULL);
    err(syscall(SYS_futex_waitv, v, 2, 0, &ts, CLOCK_MONOTONIC), EINTR, "futex_waitv: a signal");
    pthread_join(t[0], NULL);
    ends_with_waiters();
    err(syscall(SYS_futex_waitv, v, 129, 0, NULL, 0), EINVAL, "futex_waitv: too many");
}

static pthread_mutex_t rm, pm;
static void *dies_locked(void *p)
{
    pthread_mutex_lock(p);
    return NULL;
}
static void *locks_pi(void *p)
{
    count++;
    pthread_mutex_lock(p);
    flag++;
    pthread_mutex_unlock(p);
    return NULL;
}

static void robust_pi(void)
{
    pthread_mutexattr_t a;
    pthread_t t[3];
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&rm, &a);
    pthread_create(&t[0], NULL, dies_locked, &rm);
    pthread_join(t[0], NULL);
    is(pthread_mutex_lock(&rm), EOWNERDEAD, "robust: the owner died");
    is(pthread_mutex_consistent(&rm), 0, "robust: consistent");
    is(pthread_mutex_unlock(&rm), 0, "robust: unlock");
    pthread_mutex_t *sm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(sm, &a);
    in_child(pthread_mutex_lock(sm); kill(getpid(), SIGKILL));
    is(pthread_mutex_lock(sm), EOWNERDEAD, "robust: of a killed process");
    pthread_mutex_consistent(sm);
    pthread_mutex_unlock(sm);
    int rp[2];
    char x;
    must(pipe(rp));
    pid_t c = fork();
    if (!c) {
        pthread_mutex_lock(sm);
        write(rp[1], "x", 1);
        sleep_ms(50);
        _exit(0);
    }
    read(rp[0], &x, 1);
    is(pthread_mutex_lock(sm), EOWNERDEAD, "robust: a waiter is woken");
    waitpid(c, NULL, 0);
    uint64_t head = 0, len = 0;
    is(syscall(SYS_get_robust_list, 0, &head, &len), 0, "get_robust_list");
    ok(head != 0 && len == 24, "get_robust_list: values");
    err(syscall(SYS_set_robust_list, &head, 5), EINVAL, "set_robust_list: size");
    pthread_mutexattr_init(&a);
    is(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT), 0, "PRIO_INHERIT");
    is(pthread_mutex_init(&pm, &a), 0, "a PI mutex");
    is(pthread_mutex_lock(&pm), 0, "PI: lock");
    is(pthread_mutex_trylock(&pm), EBUSY, "PI: trylock");
    count = flag = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, locks_pi, &pm);
    until(3);
    is(flag, 0, "PI: others wait");
    is(pthread_mutex_unlock(&pm), 0, "PI: unlock");
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    is(flag, 3, "PI: all had their turn");
    struct timespec ts;
    pthread_mutex_lock(&pm);
    void *timed(void *p)
    {
        (void)p;
        struct timespec q;
        clock_gettime(CLOCK_REALTIME, &q);
        q.tv_nsec += 20000000;
        if (q.tv_nsec >= 1000000000)
            q.tv_nsec -= 1000000000, q.tv_sec++;
        return (void *)(long)pthread_mutex_timedlock(&pm, &q);
    }
    void *r;
    pthread_create(&t[0], NULL, timed, NULL);
    pthread_join(t[0], &r);
    is((long)r, ETIMEDOUT, "PI: timedlock");
    pthread_mutex_unlock(&pm);
    uint32_t w = 0;
    is(futex(&w, FUTEX_LOCK_PI, 0, NULL, NULL, 0), 0, "FUTEX_LOCK_PI");
    is(w, (uint32_t)syscall(SYS_gettid), "FUTEX_LOCK_PI: the word is the tid");
    err(futex(&w, FUTEX_LOCK_PI, 0, NULL, NULL, 0), EDEADLK, "FUTEX_LOCK_PI: twice");
    err(futex(&w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0), EDEADLK, "FUTEX_TRYLOCK_PI: twice");
    is(futex(&w, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), 0, "FUTEX_UNLOCK_PI");
    is(w, 0, "FUTEX_UNLOCK_PI: the word");
    err(futex(&w, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), EPERM, "FUTEX_UNLOCK_PI: not the owner");
    w = 4000000 & FUTEX_TID_MASK;
    err(futex(&w, FUTEX_LOCK_PI, 0, NULL, NULL, 0), ESRCH, "FUTEX_LOCK_PI: no such owner");
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&rm, &a);
    pthread_create(&t[0], NULL, dies_locked, &rm);
    pthread_join(t[0], NULL);
    is(pthread_mutex_lock(&rm), EOWNERDEAD, "robust PI: the owner died");
    (void)ts;
}

static void rest(void)
{
    long q = syscall(SYS_membarrier, 0, 0, 0);
    ok(q > 0 && (q & 8) && (q & 16), "membarrier: query");
    is(syscall(SYS_membarrier, 16, 0, 0), 0, "membarrier: register private expedited");
    is(syscall(SYS_membarrier, 8, 0, 0), 0, "membarrier: private expedited");
    is(syscall(SYS_membarrier, 1, 0, 0), 0, "membarrier: global");
    err(syscall(SYS_membarrier, 1 << 20, 0, 0), EINVAL, "membarrier: unknown");
    err(syscall(SYS_membarrier, 8, 99, 0), EINVAL, "membarrier: flags");
    static volatile int stop;
    void *spin(void *a) { while (!stop) count++; return a; }
    pthread_t t;
    pthread_create(&t, NULL, spin, NULL);
    void *barriers(void *a) { for (int i = 0; i < 200; i++) syscall(SYS_membarrier, 8, 0, 0); return a; }
    pthread_t others[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&others[i], NULL, barriers, NULL);
    int bad = 0;
    for (int i = 0; i < 50; i++)
        bad += syscall(SYS_membarrier, 8, 0, 0) != 0;
    is(bad, 0, "membarrier with a running thread");
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    ok(true, "membarrier from several threads at once");
    stop = 1;
    pthread_join(t, NULL);
    is(WEXITSTATUS(in_child(execl("/bin/sh", "sh", "-c", "exit 0", NULL))), 0, "exec after it");
    int tidptr = 7;
    is(syscall(SYS_set_tid_address, &tidptr), syscall(SYS_gettid), "set_tid_address gives the tid");
}

TAP_MAIN
{
    basics();
    futexes();
    robust_pi();
    rest();
    return done();
}
