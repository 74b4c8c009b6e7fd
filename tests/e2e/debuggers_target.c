/* What debuggers.sh looks at. With an argument: two threads that never end. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

int counter = 5;

static int twice(int n)
{
    int r = n * 2;
    counter += r;
    return r;
}

static void *thread(void *p)
{
    for (;;) {
        twice(1);
        usleep(1000);
    }
    return p;
}

static void threads(void)
{
    pthread_t t;
    pthread_create(&t, NULL, thread, NULL);
    pthread_create(&t, NULL, thread, NULL);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    int sum = 0;
    (void)argv;
    if (argc > 1)
        threads();
    for (int i = 0; i < 3; i++)
        sum += twice(i);
    printf("sum %d counter %d\n", sum, counter);
    return 0;
}
