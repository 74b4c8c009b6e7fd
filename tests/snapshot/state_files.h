/* Part of state.c: descriptors, files, sockets, terminals, objects of communication. */
static int pair[2], nonblock[2];
static struct {
    int full[2], event, semaphore, epoll, edge[2], nested, timer, periodic, signals, unlinked, offset, dup_offset, append, proc, directory, inotify;
    int memfd, seqpacket[2], dgram[2], stream[2], named, named_client, tcp, tcp_client, tcp_server, waiting_client, udp[2], listing, fifo;
    int generation, socket_in_flight[2], opath, big_pipe, ofd, gone[2];
    long names;
} f;

static void put(int fd, const char *s) { must(write(fd, s, strlen(s))); }

static const char *get(int fd)
{
    static char text[4096];
    ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = 0;
    return text;
}

static void send_fd(int to, int fd, char mark)
{
    struct iovec v = {&mark, 1};
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    must(sendmsg(to, &h, 0));
}

static int receive_fd(int from, char *mark)
{
    struct iovec v = {mark, 1};
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    int fd = -1;
    if (recvmsg(from, &h, MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&h))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(int));
    return fd;
}

static int ready(int epoll)
{
    struct epoll_event e[8];
    int sum = 0;
    for (int n = epoll_wait(epoll, e, 8, 0); n > 0; n--)
        sum += (int)e[n - 1].data.u32;
    return sum;
}

static void watch(int epoll, int fd, unsigned events, unsigned mark)
{
    struct epoll_event e = {.events = events, .data.u32 = mark};
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
}

static void descriptors_setup(void)
{
    must(pipe(pair));
    put(pair[1], "in the pipe");
    must(pipe2(nonblock, O_NONBLOCK | O_CLOEXEC));
    must(pipe(f.full));
    f.big_pipe = fcntl(f.full[1], F_SETPIPE_SZ, 1 << 18);
    fcntl(f.full[1], F_SETFL, O_NONBLOCK);
    char page[4096];
    memset(page, 'p', sizeof(page));
    while (write(f.full[1], page, sizeof(page)) > 0)
        ;
    f.event = (int)must(eventfd(5, EFD_NONBLOCK));
    f.semaphore = (int)must(eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK));
    must(pipe(f.edge));
    f.epoll = (int)must(epoll_create1(EPOLL_CLOEXEC));
    watch(f.epoll, pair[0], EPOLLIN, 1);
    watch(f.epoll, f.event, EPOLLIN, 10);
    watch(f.epoll, nonblock[0], EPOLLIN, 100);
    watch(f.epoll, f.edge[0], EPOLLIN | EPOLLET, 1000);
    watch(f.epoll, f.semaphore, EPOLLIN | EPOLLONESHOT, 10000);
    put(f.edge[1], "x");
    ready(f.epoll);
    f.nested = (int)must(epoll_create1(0));
    watch(f.nested, f.epoll, EPOLLIN, 7);
    must(pipe(f.gone)); /* registered, then closed while a duplicate lives */
    watch(f.nested, f.gone[0], EPOLLIN, 70);
    must(dup2(f.gone[0], 200));
    close(f.gone[0]);
    put(f.gone[1], "y");
    f.timer = (int)must(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    f.periodic = (int)must(timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK));
    struct itimerspec soon = {.it_value = {0, 300000000}}, often = {.it_value = {0, 100000000}, .it_interval = {0, 100000000}};
    must(timerfd_settime(f.timer, 0, &soon, NULL));
    must(timerfd_settime(f.periodic, 0, &often, NULL));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 9);
    f.signals = (int)must(signalfd(-1, &set, SFD_NONBLOCK));
    sigqueue(getpid(), SIGRTMIN + 9, (union sigval){.sival_int = 77});
}

static void files_setup(void)
{
    f.unlinked = (int)must(open("unlinked", O_RDWR | O_CREAT, 0600));
    put(f.unlinked, "without a name");
    unlink("unlinked");
    f.offset = (int)must(open("offset", O_RDWR | O_CREAT, 0644));
    put(f.offset, "0123456789");
    f.dup_offset = dup(f.offset);
    lseek(f.offset, 3, SEEK_SET);
    f.append = (int)must(open("offset", O_WRONLY | O_APPEND));
    f.proc = (int)must(open("/proc/self/status", O_RDONLY));
    char few[6];
    must(read(f.proc, few, 5));
    f.directory = (int)must(open("/proc/self", O_RDONLY | O_DIRECTORY));
    f.opath = (int)must(open("offset", O_PATH));
    must(mkdir("list", 0755));
    for (int i = 0; i < 300; i++) {
        char name[40];
        snprintf(name, sizeof(name), "list/a-file-with-number-%d", i);
        close((int)must(open(name, O_CREAT | O_WRONLY, 0644)));
    }
    f.listing = (int)must(open("list", O_RDONLY | O_DIRECTORY));
    char room[1024];
    long n = must(syscall(SYS_getdents64, f.listing, room, sizeof(room)));
    for (long at = 0; at < n; f.names++)
        at += *(unsigned short *)(room + at + 16);
    f.inotify = (int)must(inotify_init1(IN_NONBLOCK));
    must(mkdir("watched", 0755));
    must(inotify_add_watch(f.inotify, "watched", IN_CREATE | IN_DELETE));
    close((int)must(open("watched/one", O_CREAT | O_WRONLY, 0644)));
    f.generation = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(f.generation, "/run/harena/generation", IN_MODIFY | IN_CLOSE_WRITE);
    f.memfd = (int)must(memfd_create("sealed", MFD_ALLOW_SEALING));
    put(f.memfd, "sealed text");
    must(fcntl(f.memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK));
    must(mkfifo("fifo", 0600));
    f.fifo = (int)must(open("fifo", O_RDWR));
    put(f.fifo, "in the fifo");
    must(symlink("offset", "link"));
    must(link("offset", "hard"));
    must(chmod("offset", 0604));
    struct timespec times[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
    must(utimensat(AT_FDCWD, "offset", times, 0));
    must(fcntl(f.offset, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_start = 2, .l_len = 4}));
    f.ofd = (int)must(open("ofd", O_RDWR | O_CREAT, 0644));
    must(fcntl(f.ofd, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 9}));
    must(flock(f.ofd, LOCK_EX));
    int sparse = (int)must(open("sparse", O_RDWR | O_CREAT, 0644));
    pwrite(sparse, "end", 3, 5000000000);
    close(sparse);
}

static int inet(int type, struct sockaddr_in *a)
{
    int s = (int)must(socket(AF_INET, type, 0));
    socklen_t n = sizeof(*a);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(s, (void *)a, sizeof(*a)));
    must(getsockname(s, (void *)a, &n));
    return s;
}

static void sockets_setup(void)
{
    int extra[2];
    must(pipe(extra));
    put(extra[1], "in flight");
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, f.stream));
    put(f.stream[1], "ab");
    send_fd(f.stream[1], extra[0], 'c');
    close(extra[0]);
    close(extra[1]);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, f.socket_in_flight));
    put(f.socket_in_flight[1], "from the other end");
    send_fd(f.stream[1], f.socket_in_flight[0], 'd');
    close(f.socket_in_flight[0]);
    must(socketpair(AF_UNIX, SOCK_DGRAM, 0, f.dgram));
    put(f.dgram[1], "one");
    put(f.dgram[1], "two!");
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, f.seqpacket));
    put(f.seqpacket[1], "packet");
    shutdown(f.seqpacket[1], SHUT_WR);
    struct sockaddr_un u = {AF_UNIX, "\0state-of-the-test"};
    f.named = (int)must(socket(AF_UNIX, SOCK_STREAM, 0));
    must(bind(f.named, (void *)&u, 20));
    must(listen(f.named, 5));
    f.named_client = (int)must(socket(AF_UNIX, SOCK_STREAM, 0));
    must(connect(f.named_client, (void *)&u, 20));
    put(f.named_client, "before accept");
    struct sockaddr_in a, b;
    f.tcp = inet(SOCK_STREAM, &a);
    must(listen(f.tcp, 5));
    f.tcp_client = (int)must(socket(AF_INET, SOCK_STREAM, 0));
    must(connect(f.tcp_client, (void *)&a, sizeof(a)));
    f.tcp_server = (int)must(accept(f.tcp, NULL, NULL));
    put(f.tcp_client, "to the server");
    put(f.tcp_server, "to the client");
    shutdown(f.tcp_server, SHUT_WR);
    setsockopt(f.tcp_client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(f.tcp_client, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){7, 0}, sizeof(struct timeval));
    f.waiting_client = (int)must(socket(AF_INET, SOCK_STREAM, 0));
    must(connect(f.waiting_client, (void *)&a, sizeof(a)));
    put(f.waiting_client, "not accepted yet");
    f.udp[0] = inet(SOCK_DGRAM, &a);
    f.udp[1] = inet(SOCK_DGRAM, &b);
    must(connect(f.udp[1], (void *)&a, sizeof(a)));
    put(f.udp[1], "datagram");
}

static void check_descriptors(bool clone)
{
    is(ready(f.epoll), 11, "epoll: what is ready, one-shot and edge were told");
    put(nonblock[1], "n");
    put(f.edge[1], "x");
    is(ready(f.epoll), 1111, "  more is ready");
    is(ready(f.nested), 77, "  nested, and of a descriptor that is closed");
    is_str(get(pair[0]), "in the pipe", "bytes in a pipe");
    put(pair[1], "more");
    is_str(get(pair[0]), "more", "  and more");
    get(nonblock[0]);
    err(read(nonblock[0], &(char){0}, 1), EAGAIN, "O_NONBLOCK");
    is(fcntl(nonblock[0], F_GETFD), FD_CLOEXEC, "FD_CLOEXEC");
    is(fcntl(f.full[1], F_GETPIPE_SZ), f.big_pipe, "size of a pipe");
    err(write(f.full[1], "x", 1), EAGAIN, "a full pipe");
    long total = 0;
    fcntl(f.full[0], F_SETFL, O_NONBLOCK);
    for (const char *s; *(s = get(f.full[0]));)
        total += (long)strlen(s);
    is(total, f.big_pipe, "  holds all");
    uint64_t v = 0;
    is(read(f.event, &v, 8) == 8 ? v : 0, 5, "eventfd");
    for (total = 0; read(f.semaphore, &v, 8) == 8;)
        total += (long)v;
    is(total, 3, "eventfd: semaphore");
    for (int i = 0; i < 100 && (read(f.timer, &v, 8) < 0); i++)
        sleep_ms(20);
    is(v, 1, "timerfd: once");
    sleep_ms(50);
    err(read(f.timer, &v, 8), EAGAIN, "  and not again");
    sleep_ms(120);
    ok(read(f.periodic, &v, 8) == 8 && v > 0, "timerfd: periodic");
    sleep_ms(220);
    ok(read(f.periodic, &v, 8) == 8 && v >= 1 && v < 60, "  goes on");
    struct signalfd_siginfo si = {0};
    ok(read(f.signals, &si, sizeof(si)) == sizeof(si) && si.ssi_int == 77, "signalfd");
    struct itimerspec left;
    ok(!timerfd_gettime(f.periodic, &left) && left.it_interval.tv_nsec == 100000000, "timerfd_gettime");
    char events[4096];
    ok(!clone || read(f.generation, events, sizeof(events)) > 0, "inotify of the generation");
}

static int lock_of(int how, const char *name, short type, int start)
{
    struct flock l = {.l_type = type, .l_start = start, .l_len = 1};
    return in_child(int fd = open(name, O_RDWR); fcntl(fd, how, &l); _exit(l.l_type == F_UNLCK ? 9 : l.l_pid == getppid() ? 1 : l.l_pid == -1 ? 2 : 3)) >> 8;
}

static void check_files(void)
{
    char text[4096];
    struct stat st;
    pread(f.unlinked, text, sizeof(text), 0);
    ok(!memcmp(text, "without a name", 14) && !fstat(f.unlinked, &st) && st.st_nlink == 0, "an unlinked file");
    ok(!stat("offset", &st) && (st.st_mode & 07777) == 0604 && st.st_nlink == 2 && st.st_mtim.tv_sec == 1100000000 && st.st_mtim.tv_nsec == 987654321,
       "attributes of a file");
    is(lseek(f.dup_offset, 0, SEEK_CUR), 3, "an offset that is shared by dup");
    in_child(lseek(f.offset, 6, SEEK_SET));
    is(lseek(f.dup_offset, 0, SEEK_CUR), 6, "  and with a child");
    put(f.append, "end");
    memset(text, 0, sizeof(text));
    pread(f.offset, text, 100, 0);
    is_str(text, "0123456789end", "O_APPEND");
    is(readlink("link", text, sizeof(text)), 6, "a symbolic link");
    ok(strstr(get(f.proc), "\nPid:"), "a /proc file goes on");
    int fd = openat(f.directory, "stat", O_RDONLY);
    is(atoi(get(fd)), getpid(), "a /proc directory");
    close(fd);
    ok(!fstat(f.opath, &st) && st.st_size == 13, "O_PATH");
    char room[1024];
    for (long n; (n = syscall(SYS_getdents64, f.listing, room, sizeof(room))) > 0;)
        for (long at = 0; at < n; f.names++)
            at += *(unsigned short *)(room + at + 16);
    is(f.names, 302, "reading a directory goes on");
    ssize_t n = read(f.inotify, text, sizeof(text));
    ok(n > 16 && !strcmp(text + 16, "one"), "inotify: the event that was there");
    unlink("watched/one");
    n = read(f.inotify, text, sizeof(text));
    ok(n > 16 && ((struct inotify_event *)text)->mask == IN_DELETE, "  and another");
    err(write(f.memfd, "x", 1), EPERM, "a sealed memfd");
    err(ftruncate(f.memfd, 1), EPERM, "  cannot shrink");
    is(fcntl(f.memfd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_SHRINK, "  its seals");
    is_str(get(f.fifo), "in the fifo", "bytes in a fifo");
    is(lock_of(F_GETLK, "offset", F_WRLCK, 3), 1, "a POSIX lock");
    is(lock_of(F_GETLK, "offset", F_WRLCK, 7), 9, "  not of other bytes");
    is(lock_of(F_GETLK, "ofd", F_WRLCK, 3), 2, "an OFD lock");
    is(in_child(int o = open("ofd", O_RDWR); _exit(flock(o, LOCK_EX | LOCK_NB) == 0)), 0, "flock");
    flock(f.ofd, LOCK_UN);
    is(in_child(int o = open("ofd", O_RDWR); _exit(flock(o, LOCK_EX | LOCK_NB) != 0)), 0, "  given back");
    fd = open("sparse", O_RDWR);
    ok(!fstat(fd, &st) && st.st_size == 5000000003 && st.st_blocks < 1000 && pread(fd, text, 3, 5000000000) == 3 && !memcmp(text, "end", 3),
       "a sparse file");
    is(lseek(fd, 0, SEEK_DATA), 5000000000 & ~4095, "  SEEK_DATA");
    close(fd);
}

static void check_sockets(void)
{
    char mark = 0, text[64];
    is(recv(f.stream[0], text, 2, MSG_DONTWAIT), 2, "bytes in a unix socket");
    int fd = receive_fd(f.stream[0], &mark);
    is_str(get(fd), "in flight", "a descriptor in flight");
    is(read(fd, text, 1), 0, "  its other end is closed");
    fd = receive_fd(f.stream[0], &mark);
    is_str(get(fd), "from the other end", "a socket in flight");
    put(fd, "back");
    is_str(get(f.socket_in_flight[1]), "back", "  works");
    is_str(get(f.dgram[0]), "one", "datagrams");
    is_str(get(f.dgram[0]), "two!", "  one by one");
    is_str(get(f.seqpacket[0]), "packet", "a packet");
    is(read(f.seqpacket[0], text, 1), 0, "  then the end");
    fd = accept(f.named, NULL, NULL);
    is_str(get(fd), "before accept", "accept of a unix connection");
    struct ucred c = {0};
    getsockopt(f.named_client, SOL_SOCKET, SO_PEERCRED, &c, &(socklen_t){sizeof(c)});
    is(c.pid, getpid(), "  its peer");
    is_str(get(f.tcp_server), "to the server", "TCP");
    is_str(get(f.tcp_client), "to the client", "  the other way");
    is(read(f.tcp_client, text, 1), 0, "  half closed");
    put(f.tcp_client, "again");
    is_str(get(f.tcp_server), "again", "  goes on");
    int on = 0;
    struct timeval tv = {0};
    getsockopt(f.tcp_client, IPPROTO_TCP, TCP_NODELAY, &on, &(socklen_t){sizeof(on)});
    getsockopt(f.tcp_client, SOL_SOCKET, SO_RCVTIMEO, &tv, &(socklen_t){sizeof(tv)});
    ok(on && tv.tv_sec == 7, "  its options");
    fd = accept(f.tcp, NULL, NULL);
    is_str(get(fd), "not accepted yet", "a connection that waits");
    struct sockaddr_in a;
    must(getsockname(f.tcp, (void *)&a, &(socklen_t){sizeof(a)}));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    is(connect(fd, (void *)&a, sizeof(a)), 0, "a new connection");
    is_str(get(f.udp[0]), "datagram", "UDP");
    put(f.udp[1], "another");
    is_str(get(f.udp[0]), "another", "  goes on");
}

/* ---- System V and POSIX objects ---- */

static struct {
    int shm, gone, sem, queue;
    char *at, *gone_at;
    mqd_t mq, mq_empty;
    sem_t *sem_open, *sem_shared;
    char name[40];
} o;

static void objects_setup(void)
{
    o.shm = (int)must(shmget(IPC_PRIVATE, 8192, 0600));
    o.at = shmat(o.shm, NULL, 0);
    o.gone = (int)must(shmget(IPC_PRIVATE, 8192, 0600));
    o.gone_at = shmat(o.gone, NULL, 0);
    must(shmctl(o.gone, IPC_RMID, NULL));
    memset(o.at, 41, 8192);
    memset(o.gone_at, 42, 8192);
    o.sem = (int)must(semget(IPC_PRIVATE, 3, 0600));
    must(semctl(o.sem, 0, SETVAL, 5));
    must(semop(o.sem, &(struct sembuf){1, 2, 0}, 1));
    o.queue = (int)must(msgget(IPC_PRIVATE, 0600));
    must(msgsnd(o.queue, &(struct { long type; char text[8]; }){3, "three"}, 8, 0));
    must(msgsnd(o.queue, &(struct { long type; char text[8]; }){2, "two"}, 8, 0));
    snprintf(o.name, sizeof(o.name), "/state-%d", getpid());
    struct mq_attr a = {.mq_maxmsg = 4, .mq_msgsize = 32};
    o.mq = (mqd_t)must(mq_open(o.name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &a));
    must(mq_send(o.mq, "low", 4, 1));
    must(mq_send(o.mq, "high", 5, 9));
    mq_unlink(o.name);
    o.mq_empty = (mqd_t)must(mq_open(o.name, O_RDWR | O_CREAT, 0600, &a));
    o.sem_open = sem_open(o.name, O_CREAT, 0600, 2);
    o.sem_shared = mmap(NULL, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(o.sem_shared, 1, 1);
}

static void check_objects(void)
{
    struct shmid_ds ds;
    ok(all(o.at, 8192, 41) && !shmctl(o.shm, IPC_STAT, &ds) && ds.shm_nattch >= 1 && ds.shm_cpid == getpid(), "SysV shared memory");
    ok(all(o.gone_at, 8192, 42), "  removed and attached");
    is(in_child(char *p = shmat(o.shm, NULL, 0); _exit(!all(p, 8192, 41)); ), 0, "  attached by a child");
    ok(!shmdt(o.gone_at) && faults(o.gone_at, false), "  detached");
    is(semctl(o.sem, 0, GETVAL) * 100 + semctl(o.sem, 1, GETVAL) * 10 + semctl(o.sem, 2, GETVAL), 520, "SysV semaphores, and a child's undo");
    struct { long type; char text[8]; } t;
    ok(msgrcv(o.queue, &t, 8, 2, IPC_NOWAIT) == 8 && !strcmp(t.text, "two"), "SysV messages by type");
    ok(msgrcv(o.queue, &t, 8, 0, IPC_NOWAIT) == 8 && !strcmp(t.text, "three"), "  in order");
    char text[32];
    unsigned prio;
    ok(mq_receive(o.mq, text, 32, &prio) == 5 && prio == 9 && mq_receive(o.mq, text, 32, &prio) == 4 && prio == 1, "POSIX messages");
    int v = 0;
    ok(!sem_trywait(o.sem_open) && !sem_getvalue(o.sem_open, &v) && v == 1, "a named semaphore");
    is(in_child(_exit(sem_trywait(o.sem_shared))), 0, "a semaphore in shared memory");
    mq_unlink(o.name);
    sem_unlink(o.name);
    shmctl(o.shm, IPC_RMID, NULL);
    semctl(o.sem, 0, IPC_RMID);
    msgctl(o.queue, IPC_RMID, NULL);
}
