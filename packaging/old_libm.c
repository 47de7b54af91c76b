/* For wheels only: the C library's functions of 2.29 by their old versions, so that the program runs
 * with 2.28 too. They differ in how errors are reported, which nothing here reads. The linker sends every
 * call here (--wrap), those of linked-in libraries too. */
#if defined __aarch64__
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif
#define OLD(name, parameters, arguments)                                                                     \
    double vt_old_##name parameters;                                                                         \
    double __wrap_##name parameters;                                                                         \
    __asm__(".symver vt_old_" #name "," #name "@" OLDEST);                                                   \
    double __wrap_##name parameters                                                                          \
    {                                                                                                        \
        return vt_old_##name arguments;                                                                      \
    }

OLD(pow, (double base, double exponent), (base, exponent))
OLD(exp, (double exponent), (exponent))
OLD(log, (double number), (number))
