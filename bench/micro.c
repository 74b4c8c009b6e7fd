/* Microbenchmarks of system calls; run natively and in a sandbox by bench/run. One line per row: name, nanoseconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/syscall.h>
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e9+t.tv_nsec;}
int main(){double a;int n=100000;struct stat st;char b[4096];
for(int i=0;i<1000;i++)syscall(SYS_getppid);
a=now();for(int i=0;i<n;i++)syscall(SYS_getppid);printf("getppid %.0f ns\n",(now()-a)/n);
a=now();for(int i=0;i<n;i++)stat("/usr/lib/os-release",&st);printf("stat %.0f ns\n",(now()-a)/n);
a=now();for(int i=0;i<n/5;i++)close(open("/usr/lib/os-release",O_RDONLY));printf("open+close %.0f ns\n",(now()-a)/(n/5));
int p[2];pipe(p);a=now();for(int i=0;i<n;i++){write(p[1],b,1);read(p[0],b,1);}printf("pipe write+read %.0f ns\n",(now()-a)/n);
a=now();for(int i=0;i<300;i++){int q=fork();if(!q)_exit(0);waitpid(q,0,0);}printf("fork+exit+wait %.0f us\n",(now()-a)/300e3);
int q[2];pipe(q);int c=fork();if(!c){for(;;){if(read(p[0],b,1)!=1)_exit(0);write(q[1],b,1);}}a=now();for(int i=0;i<5000;i++){write(p[1],b,1);read(q[0],b,1);}printf("pipe ping-pong %.1f us\n",(now()-a)/5e6);kill(c,9);return 0;}
