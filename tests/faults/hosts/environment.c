/* Hosts that change their environment in some threads while others begin CUDA. None should, and many do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

static _Atomic bool over;
static _Atomic int ready;

static void *changes(void *argument)
{
    const char *how = argument;
    static _Atomic int numbers;
    int number = atomic_fetch_add(&numbers, 1);
    char name[64], value[512];
    atomic_fetch_add(&ready, 1);
    for (int i = 0; !atomic_load(&over); i++) {
        snprintf(name, sizeof name, "HOST_VARIABLE_%d_%d", number, i % 200);
        memset(value, 'a' + i % 26, sizeof value - 1);
        value[i % 500] = 0;
        if (!strcmp(how, "set"))
            setenv(name, value, 1);
        else if (!strcmp(how, "unset"))
            i % 2 ? setenv(name, value, 1) : unsetenv(name);
        else if (!strcmp(how, "put"))
            putenv(strdup("HOST_VARIABLE=1"));
        else if (i < 3)
            clearenv();
        usleep(10);
    }
    return NULL;
}

static void *calls(void *argument)
{
    (void)argument;
    host_use_context();
    host_pairs(100);
    return NULL;
}

static int change(int count, char **arguments)
{
    pthread_t changing[2], calling[4];
    if (count != 1)
        return 2;
    host_find();
    for (int i = 0; i < 2; i++)
        changing[i] = host_thread(changes, arguments[0], 0);
    while (atomic_load(&ready) < 2)
        usleep(100);
    usleep(2000);
    host_start(); /* in the middle of it */
    for (int i = 0; i < 4; i++)
        calling[i] = host_thread(calls, NULL, 0);
    for (int i = 0; i < 4; i++)
        pthread_join(calling[i], NULL);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(changing[i], NULL);
    host_say("fine\n");
    return 0;
}

/* The environment as the host sees it, before and after, and what its children get. */
static int kept(int count, char **arguments)
{
    (void)count, (void)arguments;
    extern char **environ;
    char **list = environ;
    int before = 0, after = 0;
    while (environ[before])
        before++;
    host_begin();
    host_pairs(1000);
    while (environ[after])
        after++;
    host_say("%s, %d more\n", environ == list ? "the same list" : "another list", after - before);
    return 0;
}

/* cleared WHEN: the host empties its environment, before its first call or after it. */
static int cleared(int count, char **arguments)
{
    if (count != 1)
        return 2;
    host_find();
    if (!strcmp(arguments[0], "after"))
        host_start();
    clearenv();
    if (!strcmp(arguments[0], "before"))
        host_start();
    host_pairs(10);
    host_say("%s\n", getenv("PATH") ? "not empty" : "empty");
    return 0;
}

static const struct host_way ways[] = {{"change", change}, {"kept", kept}, {"cleared", cleared}};
HOST_MAIN(ways)
