"""Atomic words and short waits for threads that share memory."""


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
    int swap "pyxsim_swap" (int* word, int value) noexcept nogil   # returns the old value
    int add "pyxsim_add" (int* word, int value) noexcept nogil     # returns the new value
    void pause "pyxsim_pause" () noexcept nogil                    # hint: this is a spin loop
    int sched_yield() noexcept nogil                               # yield the core to another thread
    long getpid() noexcept nogil
