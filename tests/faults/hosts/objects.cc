// C++ hosts: exceptions, static objects, thread_local ones, operators new of their own.
extern "C" {
#include "host_calls.h"
}
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

bool news, inside;
std::string way;

struct counted {
    ~counted()
    {
        if (way == "static") {
            host_pairs(5);
            host_say("static object goes\n");
        }
    }
} static_object;

struct of_thread {
    int calls = 0;
    ~of_thread() { host_pairs(calls); }
};
thread_local of_thread thread_object;

// From a callback through C frames: as a library's callbacks throw through their caller.
extern "C" void throws_after_call()
{
    host_pair();
    throw std::runtime_error("mine");
}

extern "C" __attribute__((noinline)) void through_c(void (*function)())
{
    function();
}

int exceptions()
{
    int caught = 0;
    host_begin();
    for (int i = 0; i < 1000; i++)
        try {
            through_c(throws_after_call);
        } catch (const std::exception &error) {
            caught += !std::strcmp(error.what(), "mine");
            host_pair();
        }
    host_say("caught %d\n", caught);
    return 0;
}

int exceptions_in_threads()
{
    host_begin();
    std::vector<std::thread> threads;
    std::atomic<int> caught{0};
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&caught] {
            host_use_context();
            for (int j = 0; j < 200; j++)
                try {
                    through_c(throws_after_call);
                } catch (const std::runtime_error &) {
                    caught++;
                }
        });
    for (auto &thread : threads)
        thread.join();
    host_say("caught %d\n", caught.load());
    return 0;
}

int static_objects()
{
    host_begin();
    host_pairs(10);
    return 0;
}

int thread_objects()
{
    host_begin();
    for (int i = 0; i < 50; i++)
        std::thread([] {
            host_use_context();
            thread_object.calls = 3;
            host_pair();
        }).join();
    host_say("fine\n");
    return 0;
}

int own_new()
{
    host_begin();
    news = true;
    for (int i = 0; i < 500; i++)
        delete new std::vector<int>(100, i);
    news = false;
    host_say("fine\n");
    return 0;
}

int terminates()
{
    host_begin();
    host_pairs(10);
    std::set_terminate([] {
        host_pairs(10);
        host_say("terminates\n");
        std::_Exit(5);
    });
    std::thread([] {
        host_use_context();
        throws_after_call();
    }).join();
    return 0;
}

int uncaught()
{
    host_begin();
    host_pairs(10);
    throw std::runtime_error("nobody catches");
}

} // namespace

[[gnu::noinline]] void *operator new(std::size_t bytes)
{
    if (news && !inside) {
        inside = true;
        host_pair();
        inside = false;
    }
    if (void *memory = std::malloc(bytes))
        return memory;
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int (*run)();
    } ways[] = {{"exceptions", exceptions}, {"exceptions_in_threads", exceptions_in_threads},
                {"static", static_objects}, {"thread_local", thread_objects},
                {"new", own_new},           {"terminates", terminates},
                {"uncaught", uncaught}};
    way = count > 1 ? arguments[1] : "";
    for (const auto &entry : ways)
        if (way == entry.name)
            return entry.run();
    return 2;
}
