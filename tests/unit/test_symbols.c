#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace/symbols.h"
#include "trace/tables.h"
#include "trace_builder.h"

static void expect(const char *full, const char *shortened)
{
    char out[256];
    vt_shorten_function(full, out, sizeof out);
    cr_expect_str_eq(out, shortened, "%s → %s, not %s", full, out, shortened);
}

Test(symbols, shortens_for_people)
{
    expect("main", "main");
    expect("at::_ops::addmm::call(at::Tensor const&, c10::Scalar const&)", "at::_ops::addmm::call");
    expect("void at::native::(anonymous namespace)::f<float, at::g<int>>(int)", "at::native::f");
    expect("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back");
    expect("c10::cuda::(anonymous namespace)::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)",
           "c10::cuda::DeviceCachingAllocator::malloc");
    expect("at::native::f(int)::{lambda(int)#1}::operator()(int) const",
           "at::native::f::{lambda}::operator()");
    expect("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<");
    expect("bool operator<(A const&, B const&)", "operator<");
    expect("operator new(unsigned long)", "operator new");
    expect("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
           "torch::autograd::Engine::thread_main");
    expect("f() [clone .cold]", "f");
    expect("decltype(auto) ns::f<int>(int)", "ns::f");
    expect("", "");
    expect("operator_like::thing(int)", "operator_like::thing");
    expect("(((", "(((");
}

static const struct vt_trace_symbol *symbol_of(struct builder *builder, const char *linkage_name,
                                               struct vt_trace **trace)
{
    builder_symbol(builder, 0x1234, 0, linkage_name);
    *trace = builder_open(builder);
    return vt_trace_symbol(*trace, 0x1234);
}

Test(symbols, demangles)
{
    struct vt_trace *trace;
    struct builder *builder = builder_new(16);
    const struct vt_trace_symbol *symbol = symbol_of(builder, "_ZN5torch8autograd4Node5applyEi", &trace);
    cr_assert_str_eq(symbol->name, "torch::autograd::Node::apply(int)");
    cr_assert_str_eq(symbol->short_name, "torch::autograd::Node::apply");
    vt_trace_close(trace);
    builder_free(builder);
}

/* Each pair holds the one before it twice. */
Test(symbols, is_not_held_up_by_a_hostile_name, .timeout = 10)
{
    char name[2000] = "_Z1fSt4pairIiiE";
    for (int i = 0; i < 25; i++) {
        char more[64];
        static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        snprintf(more, sizeof more, "S_IS%c_S%c_E", digits[i], digits[i]);
        strcat(name, more);
    }
    struct vt_trace *trace;
    struct builder *builder = builder_new(16);
    const struct vt_trace_symbol *symbol = symbol_of(builder, name, &trace);
    cr_assert_lt(strlen(symbol->name), 8u << 20);
    vt_trace_close(trace);
    builder_free(builder);
}

Test(symbols, names_what_is_too_long_to_demangle)
{
    char name[4000] = "_ZN2at6native10gpu_kernelIZ";
    while (strlen(name) < 3000)
        strcat(name, "ZNS0_1fEvE");
    struct vt_trace *trace;
    struct builder *builder = builder_new(16);
    const struct vt_trace_symbol *symbol = symbol_of(builder, name, &trace);

    cr_assert_str_eq(symbol->short_name, "at::native::gpu_kernel");
    vt_trace_close(trace);
    builder_free(builder);
}
