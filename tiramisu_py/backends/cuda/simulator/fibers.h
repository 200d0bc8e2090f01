/* Stacks to switch between: by hand on x86-64 and AArch64 (about 20 ns), elsewhere by _setjmp (about 50 ns).
   One file defines TM_DEFINE_FIBERS first. */
#ifndef TM_FIBERS_H
#define TM_FIBERS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(TM_PORTABLE_FIBERS)

typedef struct fiber_context {
  void *stack;
} fiber_context;

void tm_fiber_switch(fiber_context *from, fiber_context *to);
#ifdef TM_DEFINE_FIBERS
__asm__(
    ".text\n.p2align 4\n.hidden tm_fiber_switch\n.globl tm_fiber_switch\n.type tm_fiber_switch,@function\n"
    "tm_fiber_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\n"
    "mov (%rsi),%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
    "ret\n"
    ".size tm_fiber_switch,.-tm_fiber_switch\n");
#endif

static inline void fiber_make(fiber_context *fiber, void *stack_end, void (*entry)(void)) {
  void **top = (void **)((uintptr_t)stack_end & ~(uintptr_t)15);
  *--top = NULL; /* entry finds the stack as after a call */
  *(void (**)(void))--top = entry;
  for (int saved = 0; saved < 6; saved++) *--top = NULL;
  fiber->stack = top;
}

#elif defined(__aarch64__) && !defined(TM_PORTABLE_FIBERS)

typedef struct fiber_context {
  void *stack;
} fiber_context;

void tm_fiber_switch(fiber_context *from, fiber_context *to);
#ifdef TM_DEFINE_FIBERS
__asm__(
    ".text\n.p2align 4\n.hidden tm_fiber_switch\n.globl tm_fiber_switch\n.type tm_fiber_switch,%function\n"
    "tm_fiber_switch:\n"
    "sub sp,sp,#160\n"
    "stp x19,x20,[sp,#0]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
    "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
    "mov x9,sp\nstr x9,[x0]\n"
    "ldr x9,[x1]\nmov sp,x9\n"
    "ldp x19,x20,[sp,#0]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
    "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#160\nret\n"
    ".size tm_fiber_switch,.-tm_fiber_switch\n");
#endif

static inline void fiber_make(fiber_context *fiber, void *stack_end, void (*entry)(void)) {
  char *top = (char *)((uintptr_t)stack_end & ~(uintptr_t)15) - 160;
  for (int saved = 0; saved < 20; saved++) ((void **)top)[saved] = NULL;
  ((void (**)(void))top)[11] = entry; /* where x30 is */
  fiber->stack = top;
}

#else

#include <setjmp.h>
#include <ucontext.h>

typedef struct fiber_context {
  jmp_buf place;
  ucontext_t start;
  int fresh;
} fiber_context;

static inline void tm_fiber_switch(fiber_context *from, fiber_context *to) {
  if (_setjmp(from->place) != 0) return;
  if (!to->fresh) _longjmp(to->place, 1);
  to->fresh = 0;
  setcontext(&to->start);
}

static inline void fiber_make(fiber_context *fiber, void *stack_end, void (*entry)(void)) {
  const size_t bytes = 32 << 10; /* every stack has at least twice as much */
  getcontext(&fiber->start);
  fiber->start.uc_stack.ss_sp = (char *)stack_end - bytes;
  fiber->start.uc_stack.ss_size = bytes;
  fiber->start.uc_link = NULL;
  makecontext(&fiber->start, entry, 0);
  fiber->fresh = 1;
}

#endif
#endif
