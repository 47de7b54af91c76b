/* Which process of NVML's list is ours: right or not known, in each kind of namespace. */
#include <criterion/criterion.h>

#include "record/own_pid.h"

#define HOST "pid:[4026531836]"
#define CONTAINER "pid:[4026532199]"

static bool is_small(uint32_t pid) /* the numbers of a container */
{
    return pid < 100;
}

static bool never(uint32_t pid)
{
    (void)pid;
    return false;
}

static uint32_t place(const char *status, const char *name_space, vt_pid_exists *exists, uint32_t count,
                      const uint32_t *pids)
{
    struct vt_own_pid own;
    vt_own_pid_parse(status, name_space, 7, &own);
    return vt_own_pid_place(&own, pids, count, exists);
}
#define PLACE(status, name_space, exists, ...)                                                               \
    place(status, name_space, exists, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                  \
          (uint32_t[]){__VA_ARGS__})

Test(own_pid, on_the_host_the_number_is_enough)
{
    cr_assert_eq(PLACE("Name:\tx\nNSpid:\t812\nVmPeak:", HOST, never, 5, 812, 9), 1);
    cr_assert_eq(PLACE("Name:\tx\nNSpid:\t812\n", HOST, never, 5, 7), UINT32_MAX);
    cr_assert_eq(place("Name:\tx\nNSpid:\t812\n", HOST, never, 0, NULL), UINT32_MAX);
}

Test(own_pid, in_a_container_all_must_be_known_there)
{
    const char *status = "Name:\tx\nNSpid:\t7\nVmPeak:";
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 7), 0);
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 30, 7), 1);
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 81234), UINT32_MAX);
    /* the host's numbers, of which one is ours by chance: ours is among the others */
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 7, 81234), UINT32_MAX);
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 7, 7), UINT32_MAX);
}

Test(own_pid, with_the_hosts_proc)
{
    const char *status = "Name:\tx\nNSpid:\t81234\t7\n";
    cr_assert_eq(PLACE(status, CONTAINER, is_small, 7), UINT32_MAX); /* /proc cannot say whose it is */
    cr_assert_eq(PLACE(status, CONTAINER, never, 81234), UINT32_MAX);
}

static bool always(uint32_t pid)
{
    (void)pid;
    return true;
}

Test(own_pid, with_the_hosts_proc_and_numbers)
{
    cr_assert_eq(PLACE("\nNSpid:\t81234\t7\n", CONTAINER, always, 4, 81234), 1);
    cr_assert_eq(PLACE("\nNSpid:\t81234\t7\n", CONTAINER, always, 7, 81234), UINT32_MAX); /* which of them? */
}

Test(own_pid, without_proc)
{
    struct vt_own_pid own;
    vt_own_pid_parse("", "", 7, &own);
    cr_assert(own.is_nested && own.count == 1 && own.pids[0] == 7);
    cr_assert_eq(PLACE("", "", never, 7), UINT32_MAX);
    vt_own_pid_parse("Name:\tx\nNSpid:\tdamaged 99999999999\n", HOST, 7, &own);
    cr_assert(!own.is_nested && own.count == 1 && own.pids[0] == 7);
}
