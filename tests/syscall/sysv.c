/* System V shared memory, semaphores, message queues. */
#include "tap.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semun {
    int val;
    struct semid_ds *buf;
    unsigned short *array;
};

static void memory(void)
{
    struct shmid_ds d;
    key_t key = 0x7a700000 + (getpid() & 0xffff);
    err(shmget(key, 4096, 0), ENOENT, "shmget: none");
    err(shmget(IPC_PRIVATE, 0, 0600 | IPC_CREAT), EINVAL, "shmget: size 0");
    int id = shmget(key, 10000, IPC_CREAT | IPC_EXCL | 0640);
    ok(id >= 0, "shmget");
    err(shmget(key, 10000, IPC_CREAT | IPC_EXCL | 0640), EEXIST, "shmget: exists");
    is(shmget(key, 100, 0), id, "shmget: the same");
    err(shmget(key, 20000, 0), EINVAL, "shmget: bigger than it is");
    char *p = shmat(id, NULL, 0);
    ok(p != (void *)-1, "shmat");
    is(p[0], 0, "zero");
    strcpy(p, "shared");
    char *r = shmat(id, NULL, SHM_RDONLY);
    is_str(r, "shared", "a second attachment");
    is(WTERMSIG(in_child(r[0] = 1)), SIGSEGV, "SHM_RDONLY");
    is(in_child(strcpy(p, "child")), 0, "a child");
    is_str(p, "child", "is attached too");
    is(shmctl(id, IPC_STAT, &d), 0, "IPC_STAT");
    ok(d.shm_segsz == 10000 && d.shm_nattch == 2 && d.shm_cpid == getpid() && (d.shm_perm.mode & 0777) == 0640 && d.shm_perm.__key == key, "IPC_STAT: values");
    is(shmdt(r), 0, "shmdt");
    err(shmdt(r), EINVAL, "shmdt: not attached");
    err((long)shmat(12345678, NULL, 0), EINVAL, "shmat: no such id");
    err((long)shmat(id, (void *)1, 0), EINVAL, "shmat: not aligned");
    d.shm_perm.mode = 0600;
    is(shmctl(id, IPC_SET, &d), 0, "IPC_SET");
    is(shmctl(id, IPC_RMID, NULL), 0, "IPC_RMID");
    is_str(p, "child", "an attached one lives on");
    shmctl(id, IPC_STAT, &d);
    ok(d.shm_perm.mode & SHM_DEST, "SHM_DEST");
    is(shmdt(p), 0, "the last detaches");
    err(shmctl(id, IPC_STAT, &d), EINVAL, "then it is gone");
    err(shmctl(id, 9999, &d), EINVAL, "shmctl: command");
    if (getuid() == 0) {
        id = shmget(IPC_PRIVATE, 4096, 0600);
        is(WEXITSTATUS(in_child(setuid(65534); _exit(shmat(id, NULL, 0) == (void *)-1 ? errno : 0))), EACCES, "shmat: no permission");
        is(WEXITSTATUS(in_child(setuid(65534); _exit(shmctl(id, IPC_RMID, NULL) ? errno : 0))), EPERM, "IPC_RMID: not the owner");
        shmctl(id, IPC_RMID, NULL);
    }
}

static void semaphores(void)
{
    int id = semget(IPC_PRIVATE, 3, 0600);
    ok(id >= 0, "semget");
    err(semget(IPC_PRIVATE, -1, 0600), EINVAL, "semget: negative");
    union semun u = {.val = 2};
    is(semctl(id, 0, SETVAL, u), 0, "SETVAL");
    is(semctl(id, 0, GETVAL), 2, "GETVAL");
    err(semctl(id, 5, GETVAL), EINVAL, "GETVAL: no such semaphore");
    u.val = 40000;
    err(semctl(id, 0, SETVAL, u), ERANGE, "SETVAL: too big");
    struct sembuf b = {0, -1, 0};
    is(semop(id, &b, 1), 0, "down");
    is(semctl(id, 0, GETVAL), 1, "value");
    is(semctl(id, 0, GETPID), getpid(), "GETPID");
    struct sembuf two[2] = {{0, -1, IPC_NOWAIT}, {1, -1, IPC_NOWAIT}};
    err(semop(id, two, 2), EAGAIN, "all or nothing: EAGAIN");
    is(semctl(id, 0, GETVAL), 1, "nothing was done");
    unsigned short v[3] = {5, 6, 7};
    u.array = v;
    is(semctl(id, 0, SETALL, u), 0, "SETALL");
    memset(v, 0, sizeof(v));
    is(semctl(id, 0, GETALL, u), 0, "GETALL");
    ok(v[0] == 5 && v[1] == 6 && v[2] == 7, "GETALL: values");
    b = (struct sembuf){0, 0, IPC_NOWAIT};
    err(semop(id, &b, 1), EAGAIN, "wait for zero: EAGAIN");
    b = (struct sembuf){9, 1, 0};
    err(semop(id, &b, 1), EFBIG, "semop: no such semaphore");
    err(semop(id, &b, 0), EINVAL, "semop: none");
    err(semop(id, &b, 1000), E2BIG, "semop: too many");
    u.val = 0;
    semctl(id, 0, SETVAL, u);
    struct timespec t = {0, 20000000};
    b = (struct sembuf){0, -1, 0};
    err(semtimedop(id, &b, 1, &t), EAGAIN, "semtimedop: timeout");
    pid_t c = fork();
    if (!c) {
        b.sem_op = -2;
        _exit(semop(id, &b, 1) ? 1 : 3);
    }
    for (int i = 0; i < 100 && semctl(id, 0, GETNCNT) != 1; i++)
        sleep_ms(2);
    is(semctl(id, 0, GETNCNT), 1, "GETNCNT");
    b.sem_op = 2;
    semop(id, &b, 1);
    int st;
    waitpid(c, &st, 0);
    is(st, 3 << 8, "a waiter goes on");
    is(in_child(struct sembuf x = {0, 4, SEM_UNDO}; semop(id, &x, 1); _exit(semctl(id, 0, GETVAL) == 4 ? 0 : 1)), 0, "SEM_UNDO: in the child");
    is(semctl(id, 0, GETVAL), 0, "SEM_UNDO: undone at its end");
    c = fork();
    if (!c) {
        b.sem_op = -1;
        _exit(semop(id, &b, 1) == -1 && errno == EIDRM ? 3 : 4);
    }
    sleep_ms(30);
    struct semid_ds d;
    u.buf = &d;
    is(semctl(id, 0, IPC_STAT, u), 0, "IPC_STAT");
    is(d.sem_nsems, 3, "IPC_STAT: count");
    is(semctl(id, 0, IPC_RMID), 0, "IPC_RMID");
    waitpid(c, &st, 0);
    is(st, 3 << 8, "a waiter gets EIDRM");
    err(semop(id, &b, 1), EINVAL, "gone");
}

static void messages(void)
{
    struct { long type; char text[100]; } m = {1, "one"}, r;
    int id = msgget(IPC_PRIVATE, 0600);
    ok(id >= 0, "msgget");
    is(msgsnd(id, &m, 4, 0), 0, "msgsnd");
    m.type = 2, strcpy(m.text, "two");
    msgsnd(id, &m, 4, 0);
    m.type = 3, strcpy(m.text, "three");
    msgsnd(id, &m, 6, 0);
    struct msqid_ds d;
    is(msgctl(id, IPC_STAT, &d), 0, "IPC_STAT");
    ok(d.msg_qnum == 3 && d.msg_cbytes == 14 && d.msg_lspid == getpid(), "IPC_STAT: values");
    is(msgrcv(id, &r, 100, 2, 0), 4, "msgrcv: by type");
    ok(r.type == 2 && !strcmp(r.text, "two"), "msgrcv: by type: it");
    is(msgrcv(id, &r, 100, -3, 0), 4, "msgrcv: lowest type");
    is(r.type, 1, "msgrcv: lowest type: it");
    err(msgrcv(id, &r, 2, 0, 0), E2BIG, "msgrcv: too small");
    is(msgrcv(id, &r, 2, 0, MSG_NOERROR), 2, "MSG_NOERROR cuts");
    err(msgrcv(id, &r, 2, 0, IPC_NOWAIT), ENOMSG, "msgrcv: nothing");
    m.type = 0;
    err(msgsnd(id, &m, 4, 0), EINVAL, "msgsnd: type 0");
    m.type = 5;
    err(msgsnd(id, &m, 100000, 0), EINVAL, "msgsnd: too big");
    int n = 0;
    while (msgsnd(id, &m, 100, IPC_NOWAIT) == 0 && n < 10000)
        n++;
    ok(errno == EAGAIN && n > 10, "a queue fills up");
    err(msgrcv(id, &r, 100, 5, MSG_EXCEPT | IPC_NOWAIT), ENOMSG, "MSG_EXCEPT");
    while (msgrcv(id, &r, 100, 0, IPC_NOWAIT) >= 0)
        ;
    pid_t c = fork();
    if (!c)
        _exit(msgrcv(id, &r, 100, 0, 0) == 3 ? 3 : 4);
    sleep_ms(20);
    msgsnd(id, &m, 3, 0);
    int st;
    waitpid(c, &st, 0);
    is(st, 3 << 8, "msgrcv waits");
    c = fork();
    if (!c)
        _exit(msgrcv(id, &r, 100, 0, 0) == -1 && errno == EIDRM ? 3 : 4);
    sleep_ms(20);
    is(msgctl(id, IPC_RMID, NULL), 0, "IPC_RMID");
    waitpid(c, &st, 0);
    is(st, 3 << 8, "a waiter gets EIDRM");
    err(msgsnd(id, &m, 3, 0), EINVAL, "gone");
}

/* As ipcs(1) asks: by the number of a slot, and in /proc. */
static bool listed(const char *file, int id, const char *tail)
{
    char line[400], want[100];
    FILE *f = fopen(file, "r");
    bool found = false;
    snprintf(want, sizeof(want), "%10d %10d  %4o%s", 0, id, 0600, tail);
    while (f && fgets(line, sizeof(line), f))
        found |= !strncmp(line, want, strlen(want));
    if (f)
        fclose(f);
    return found;
}

static void lists(void)
{
    struct msqid_ds m;
    struct semid_ds s;
    struct shmid_ds h;
    struct seminfo si;
    struct { long type; char text[10]; } msg = {1, "hello"};
    int q = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 3, 0600), mem = shmget(IPC_PRIVATE, 10000, 0600);
    must(msgsnd(q, &msg, 5, 0));
    is(msgctl(q & 0x7fff, 11, &m) == q, 1, "MSG_STAT: the id");
    is(m.msg_qnum, 1, "MSG_STAT: data");
    is(semctl(set & 0x7fff, 0, 18, &s) == set, 1, "SEM_STAT: the id");
    is(s.sem_nsems, 3, "SEM_STAT: data");
    is(shmctl(mem & 0x7fff, 13, &h) == mem, 1, "SHM_STAT: the id");
    is(h.shm_segsz, 10000, "SHM_STAT: data");
    err(msgctl(30000, 11, &m), EINVAL, "MSG_STAT: nothing there");
    ok(semctl(0, 0, IPC_INFO, &si) >= (set & 0x7fff), "IPC_INFO: the last slot");
    struct msginfo mi;
    msgctl(0, 12 /* MSG_INFO */, (struct msqid_ds *)&mi);
    ok(mi.msgpool >= 1 && mi.msgmap >= 1 && mi.msgtql >= 5, "MSG_INFO: queues, messages, bytes");
    semctl(0, 0, 19 /* SEM_INFO */, &si);
    ok(si.semusz >= 1 && si.semaem >= 3 && si.semaem < 30000, "SEM_INFO: sets, semaphores");
    struct { int used; unsigned long tot, rss, swp, a, b; } hi;
    shmctl(0, 14 /* SHM_INFO */, (struct shmid_ds *)&hi);
    ok(hi.used >= 1 && hi.tot >= 3, "SHM_INFO: segments, pages");
    ok(listed("/proc/sysvipc/msg", q, "           5          1"), "/proc/sysvipc/msg");
    ok(listed("/proc/sysvipc/sem", set, "          3"), "/proc/sysvipc/sem");
    ok(listed("/proc/sysvipc/shm", mem, "                 10000"), "/proc/sysvipc/shm");
    is(shmctl(mem, SHM_LOCK, NULL), 0, "SHM_LOCK");
    shmctl(mem, IPC_STAT, &h);
    is(h.shm_perm.mode, 0600 | 02000, "SHM_LOCKED");
    if (getuid() == 0) {
        int st = in_child(setuid(65534); _exit(msgctl(q & 0x7fff, 11, &m) != -1 || errno != EACCES));
        is(st, 0, "MSG_STAT: not readable");
        st = in_child(setuid(65534); _exit(msgctl(q & 0x7fff, 13, &m) != q));
        is(st, 0, "MSG_STAT_ANY");
        st = in_child(setuid(65534); _exit(!listed("/proc/sysvipc/msg", q, "")));
        is(st, 0, "listed for others, too");
    }
    msgctl(q, IPC_RMID, NULL);
    semctl(set, 0, IPC_RMID);
    shmctl(mem, IPC_RMID, NULL);
}

TAP_MAIN
{
    lists();
    memory();
    semaphores();
    messages();
    return done();
}
