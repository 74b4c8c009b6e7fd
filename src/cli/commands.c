/* The commands and their help: what `harena help COMMAND` prints. */
#include "cli/cli.h"
#include <string.h>

static const char run_help[] =
    "run a program in a new sandbox\n"
    "\n"
    "The program sees a Linux of its own: processes, users, /proc, /tmp and network begin empty and end with it. Its files are\n"
    "\n"
    "  by default   the host's /usr, /bin, /lib*, some files of /etc, and the current directory at its place. All are\n"
    "               read-only, but the current directory may be written: what is written there is thrown away.\n"
    "      --image FILE            an image made by `harena image build`; writes are thrown away\n"
    "      --root DIR              a host directory; writes are thrown away\n"
    "  -v, --volume SRC:DST[:MODE] the host's file or directory SRC at DST (absolute); MODE is ro (default), rw: writes reach\n"
    "                              the host, or overlay: writes are thrown away. May be given often\n"
    "      --read-only             nothing can be written but /tmp, /dev/shm and volumes that are rw or overlay (EROFS)\n"
    "      --show-secrets          do not hide .env, .ssh, keys and the like in the current directory\n"
    "      --force-cwd             show the current directory even if it is /, the home directory or a system place\n"
    "\n"
    "The program:\n"
    "  -e, --env NAME[=VALUE]      set a variable; without VALUE it is taken from here. Nothing else is: PATH, HOME, LANG (and\n"
    "                              TERM with -t) have defaults\n"
    "      --env-file FILE         the same, a line each; lines that begin with # are comments\n"
    "  -w, --workdir DIR           directory to start in\n"
    "  -u, --user USER[:GROUP]     names or numbers, as /etc/passwd and /etc/group inside have them (default 0)\n"
    "  -t, --tty                   a terminal of its own, connected to this one\n"
    "      --hostname NAME         host name inside\n"
    "      --name NAME             of the sandbox, for ps, exec, kill and trace (default: a random one)\n"
    "\n"
    "Limits, and what happens there. The program sees them: nproc, /proc/meminfo, getrlimit, /sys/fs/cgroup.\n"
    "      --memory SIZE           of all its processes and files in memory, such as 512M. Files in memory may fill half of it\n"
    "                              (ENOSPC); when all is used, the largest process is killed (SIGKILL), which is told at the\n"
    "                              end; exit status 137 when that was the program\n"
    "      --tmpfs SIZE            of files in memory alone (ENOSPC)\n"
    "      --pids N                processes and threads (EAGAIN)\n"
    "      --files N               open files of a process (EMFILE) and, with 32 more, of all (ENFILE)\n"
    "      --cpus N                share of the processors, such as 0.5 or 2\n"
    "      --cpuset LIST           processors to run on, such as 0,2-3\n"
    "      --cpu-time TIME         of all processes together; the sandbox is killed after it; exit status 124\n"
    "      --timeout TIME          the sandbox is killed after it, such as 1.5s, 30s, 5m, 2h; exit status 124\n"
    "      --output-limit SIZE     of standard output and error together; the sandbox is killed when it writes more; status 153\n"
    "--memory, --cpus and --cpu-time need the right to make a cgroup to be exact; harena says what holds without it.\n"
    "\n"
    "      --require-layers        fail when a layer of protection is missing on this machine, instead of naming it\n"
    "      --verbose               tell about unknown system calls, crashes, what is not shown\n"
    "\n"
    "Signals INT, QUIT, HUP (to the program's process group) and TERM, USR1, USR2 (to the program) are passed on; the third\n"
    "INT or TERM ends the sandbox. When harena is killed the sandbox ends, too.\n"
    "\n"
    "Exit status: the program's; 128 + N when signal N killed it; 124 at --timeout and --cpu-time, 137 out of memory, 153 at\n"
    "--output-limit; 125 for an error of harena's own, 126 when the program cannot be executed, 127 when it is not found - with\n"
    "one line that says why.\n"
    "\n"
    "Examples:\n"
    "  harena run make test                               # in the current directory, which stays as it is\n"
    "  harena run --memory 1G --timeout 5m -v .:/src:ro -w /src -- python3 run.py\n"
    "  harena run --image debian.img -t -u nobody bash";

static const char exec_help[] =
    "run a program in a running sandbox\n"
    "\n"
    "A further program with standard streams of its own, in the sandbox NAME (or id) that `harena run` started. It ends at the\n"
    "latest with the sandbox; when this command is killed, what it started is killed as well.\n"
    "\n"
    "  -e, --env NAME[=VALUE]      set a variable; without VALUE it is taken from here\n"
    "  -w, --workdir DIR           directory to start in (default /)\n"
    "  -u, --user USER[:GROUP]     names or numbers inside (default 0)\n"
    "  -t, --tty                   a terminal of its own\n"
    "\n"
    "Exit status: as `harena run`.\n"
    "\n"
    "Example: harena exec -t web -- sh";

static const char ps_help[] =
    "list running sandboxes, or the processes of one\n"
    "\n"
    "Without NAME the sandboxes of this user: name, id, pid of the broker, age, memory (as the host counts it), number of\n"
    "processes, root file system, command. With NAME (or an id) the processes inside, as the sandbox's own kernel tells;\n"
    "states: R running, S sleeping, T stopped, Z ended. A question that a sandbox does not answer in time shows as '-'.\n"
    "\n"
    "      --json                  a JSON array; memory and mapped in bytes, times in seconds, created in seconds since 1970. Of a\n"
    "                              sandbox also: its limits, highest memory, processor time (cpu_time), tasks of the host\n"
    "                              (host_processes), and how many processes were killed out of memory (oom_kills)";

static const char kill_help[] =
    "end sandboxes\n"
    "\n"
    "Kills everything in the sandboxes NAME... (or ids) and returns when nothing of them is left. Their `harena run` exits\n"
    "with status 137.\n"
    "\n"
    "  -s, --signal SIGNAL         send the sandbox's main program this signal instead: TERM, SIGTERM or 15";

static const char trace_help[] =
    "show system calls as they happen\n"
    "\n"
    "The calls of all processes of the running sandbox NAME, until it ends or this command is interrupted; or of a new\n"
    "sandbox, whose exit status is passed on. A line shows pid, call, arguments and result, as strace does; flags are numbers.\n"
    "\n"
    "  -e, --calls NAME,NAME...    only these calls\n"
    "  -o, --output FILE           write there (default: standard error)\n"
    "  -f                          all processes: always so, accepted for strace's sake\n"
    "\n"
    "The first other option begins those of `harena run` (-e is spelt --env among them). A reader that is too slow holds the\n"
    "program back for up to a second; then lines are left out and counted. One trace at a time.\n"
    "\n"
    "Examples:\n"
    "  harena trace -e openat,execve -o calls -- make\n"
    "  harena trace web";

static const char image_help[] =
    "make a root image\n"
    "\n"
    "  harena image build DIR|TAR|- -o FILE\n"
    "\n"
    "Makes FILE, an EROFS image for `harena run --image`, from a directory or a tar archive (- is standard input, compressed or\n"
    "not). Programs and libraries are prepared: their system calls become jumps.\n"
    "\n"
    "  -o, --output FILE           the image\n"
    "      --no-views              do not prepare programs: they run slower\n"
    "      --one-file-system       do not descend into other file systems";

static const char snapshot_help[] =
    "save the state of a running sandbox\n"
    "\n"
    "Everything of the sandbox NAME - its processes with their memory, open files, what it has written to files that are thrown\n"
    "away - is frozen for a moment, copied and written to a directory; the sandbox goes on. `harena restore` goes on from there, as\n"
    "often as wanted. What a snapshot shares with the one its sandbox was restored from is stored once.\n"
    "\n"
    "  -o, --output NAME|PATH      name in the store, or with a '/' a path (default: the sandbox's name). Names cost less when they\n"
    "                              are restored; a path is copied first\n"
    "      --stop                  end the sandbox instead of going on\n"
    "      --replace               an existing snapshot (nothing else is ever replaced)\n"
    "\n"
    "The store is $HARENA_SNAPSHOTS, for root /var/lib/harena/snapshots, else $XDG_DATA_HOME/harena/snapshots or\n"
    "~/.local/share/harena/snapshots. A snapshot holds all secrets of its sandbox: keep it as safe as those.";

static const char restore_help[] =
    "go on from a snapshot\n"
    "\n"
    "SNAPSHOT is a name (see `harena snapshots`) or a path with a '/'. A new sandbox begins in the saved state; its main program has\n"
    "these standard streams. Limits, name and host name are what is given here, not what the old sandbox had.\n"
    "\n"
    "Host directories and images are never taken from a stranger's snapshot: they must be given again, at the same places. Those\n"
    "that `harena run` shows by itself are found by themselves, and a snapshot that was made here remembers the others.\n"
    "\n"
    "      --image FILE, --root DIR, -v, --volume SRC:DST[:MODE], --show-secrets, --force-cwd    see `harena run --help`\n"
    "      --name, --hostname, --memory, --timeout and the other limits, --require-layers, --verbose, -t    likewise\n"
    "  -e, --env NAME[=VALUE]      for this copy: its programs find such lines in the file /run/harena/env, written before they go on\n"
    "                              (the environment of one that runs is its own memory). --env-file FILE likewise\n"
    "      --verify                check all of its content, not only the kernel's state\n"
    "\n"
    "Example: harena snapshot web -o ready && harena restore ready --name web2 --memory 512M";

static const char fork_help[] =
    "make live copies of a running sandbox\n"
    "\n"
    "Copies go on where the sandbox NAME is now; it goes on as well. One copy has the standard streams of this command; several have\n"
    "none. Their names are printed; the command ends when all copies have, with the first failure's exit status.\n"
    "\n"
    "  -n, --count N               how many (default 1)\n"
    "      --name PREFIX           they are called PREFIX-1, PREFIX-2 ...; one alone PREFIX (default: NAME and something random)\n"
    "      --output DIR            their output goes to DIR/NAME.out and DIR/NAME.err\n"
    "  -d, --detach                in the background\n"
    "      --memory, --timeout and the other limits, --require-layers, --verbose    of each copy, see `harena run --help`; limits\n"
    "                              that are not given are those of NAME";

static const char pause_help[] =
    "stop all processes of sandboxes\n"
    "\n"
    "At once, wherever they are, until `harena resume`. Time-outs go on.";

static const char resume_help[] = "let paused sandboxes go on";

static const char snapshots_help[] =
    "list snapshots\n"
    "\n"
    "Name, time, size on the disk, how much of it no other snapshot shares, size of the state, levels of files in memory and of\n"
    "processes' memory, and the snapshot that it goes back to.\n"
    "\n"
    "      --json                  a JSON array; sizes in bytes, created in seconds since 1970";

static const char rm_help[] =
    "remove snapshots\n"
    "\n"
    "Names, or paths with a '/'. Others that share files with them stay whole, sandboxes restored from them run on.";

static const struct command commands[] = {
    { "run", cmd_run, "[OPTIONS] [--] COMMAND [ARG...]", run_help },
    { "exec", cmd_exec, "[OPTIONS] NAME [--] COMMAND [ARG...]", exec_help },
    { "ps", cmd_ps, "[--json] [NAME]", ps_help },
    { "kill", cmd_kill, "[--signal SIGNAL] NAME...", kill_help },
    { "pause", cmd_pause, "NAME...", pause_help },
    { "resume", cmd_resume, "NAME...", resume_help },
    { "snapshot", cmd_snapshot, "[--stop] [--replace] [-o SNAPSHOT] NAME", snapshot_help },
    { "restore", cmd_restore, "[OPTIONS] SNAPSHOT", restore_help },
    { "fork", cmd_fork, "[OPTIONS] NAME", fork_help },
    { "snapshots", cmd_snapshots, "[--json]", snapshots_help },
    { "rm", cmd_rm, "SNAPSHOT...", rm_help },
    { "trace", cmd_trace, "[-e CALLS] [-o FILE] NAME | [-e CALLS] [-o FILE] [run's OPTIONS] -- COMMAND [ARG...]", trace_help },
    { "image", cmd_image, "build DIR|TAR|- -o FILE", image_help },
    { "version", cmd_version, "", "print the version" },
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

void print_help(FILE *f, const char *name)
{
    const struct command *only = name ? command_find(name) : NULL;
    if (only) {
        fprintf(f, "usage: harena %s%s%s\n\n%s\n", only->name, *only->usage ? " " : "", only->usage, only->help);
        return;
    }
    fprintf(f, "Harena runs programs nobody has vetted in a sandbox with its own kernel.\n\nusage: harena COMMAND ...\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++)
        fprintf(f, "  %-10s%.*s\n", commands[i].name, (int)strcspn(commands[i].help, "\n"), commands[i].help);
    fprintf(f, "\n`harena COMMAND --help` tells more. Exit status 125: an error of harena's own.\n");
}
