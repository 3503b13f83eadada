"""What threads that share memory need of the compiler and the system: words that all of them see, and short waits."""


cdef extern from *:
    """
    #include <sched.h>
    #include <unistd.h>
    #define pyxsim_load(word) __atomic_load_n(word, __ATOMIC_SEQ_CST)
    #define pyxsim_swap(word, value) __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST)
    #define pyxsim_add(word, value) __atomic_add_fetch(word, value, __ATOMIC_SEQ_CST)
    #if defined(__x86_64__) || defined(__i386__)
    #define pyxsim_pause() __builtin_ia32_pause()
    #elif defined(__aarch64__)
    #define pyxsim_pause() __asm__ __volatile__("yield")
    #else
    #define pyxsim_pause() ((void) 0)
    #endif
    """
    int load "pyxsim_load" (int* word) noexcept nogil
    int swap "pyxsim_swap" (int* word, int value) noexcept nogil   # returns what it was
    int add "pyxsim_add" (int* word, int value) noexcept nogil     # returns what it is
    void pause "pyxsim_pause" () noexcept nogil                    # this is a loop that waits
    int sched_yield() noexcept nogil                               # let another thread have the core
    long getpid() noexcept nogil
