#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "simulator.h"

static struct sigaction former[3];
static const int signals[3] = {SIGSEGV, SIGBUS, SIGFPE};

/* Back to the scheduler, from a stack that is left for good. */
static void __attribute__((noreturn, used)) landing(void) { tm_leave_block(tm_me); }

static void *place_of(const ucontext_t *context) {
#if defined(__x86_64__)
  return (void *)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (void *)context->uc_mcontext.pc;
#else
  (void)context;
  return NULL;
#endif
}

static void land(ucontext_t *context, char *stack) {
#if defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)landing;
  context->uc_mcontext.gregs[REG_RSP] = (greg_t)(stack - 8);
#elif defined(__aarch64__)
  context->uc_mcontext.pc = (uint64_t)landing;
  context->uc_mcontext.sp = (uint64_t)stack;
#else
  (void)context;
  (void)stack;
  landing();
#endif
}

static void pass_on(int number, siginfo_t *info, void *context) {
  int which = 0;
  while (signals[which] != number) which++;
  const struct sigaction *before = &former[which];
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction(number, info, context);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler(number);
  else {
    signal(number, SIG_DFL);
    raise(number);
  }
}

static void on_fault(int number, siginfo_t *info, void *context) {
  tm_worker *worker = tm_me;
  if (worker != NULL && worker->in_kernel && !worker->faulted) {
    worker->faulted = true;
    worker->fault_signal = number;
    worker->fault_address = info->si_addr;
    worker->fault_place = place_of(context);
    land(context, worker->abort_stack + PAGE * 4 - 16);
    return;
  }
  if (number != SIGFPE && tm_is_device_address(info->si_addr)) {
    char what[200], text[300];
    tm_describe(what, sizeof what, info->si_addr);
    const int length = snprintf(text, sizeof text, "simulated GPU: host code followed a device address: %s\n", what);
    if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(1);
  }
  pass_on(number, info, context);
}

void tm_faults_start(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  for (int which = 0; which < 3; which++) sigaction(signals[which], &action, &former[which]);
}

/* -- words */

static bool is_own_header(const char *name) {
  return strncmp(name, "tm_kernel.h:", 12) == 0 || strncmp(name, "tm_simulated.h:", 15) == 0;
}

/* "blur.cu:12" of a place in the code of the kernels: the innermost line that is not of our headers. */
void tm_source_line(char *text, size_t size, const tm_module *module, const void *place) {
  char command[1200], line[600];
  snprintf(text, size, "%s", module->program->file);
  snprintf(command, sizeof command, "addr2line -i -e '%s' %#zx 2>/dev/null", module->path,
           (size_t)((const char *)place - module->base));
  FILE *lines = popen(command, "r");
  if (lines == NULL) return;
  while (fgets(line, sizeof line, lines) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *discriminator = strstr(line, " (disc"), *name = strrchr(line, '/');
    if (discriminator != NULL) *discriminator = '\0';
    name = name != NULL ? name + 1 : line;
    if (is_own_header(name) || strchr(name, '?') != NULL) continue;
    snprintf(text, size, "%s", name);
    break;
  }
  pclose(lines);
}

/* "argument x: element 1000 of 1000 (4 bytes each)" for an address near an argument's allocation. */
static bool describe_argument(char *text, size_t size, const tm_launch *launch, const char *place) {
  const tm_simulated_kernel *kernel = launch->kernel;
  const tm_allocation *near = tm_is_place(place) ? tm_nearest(place) : NULL;
  for (int i = 0; near != NULL && i < kernel->parameter_count; i++) {
    if (launch->holders[i] != near || !near->live) continue;
    const ptrdiff_t element = kernel->parameters[i].element, byte = place - near->place;
    snprintf(text, size, "element %td of %s, which has %zu elements of %td bytes",
             byte < 0 ? (byte - element + 1) / element : byte / element, kernel->names[i], near->bytes / (size_t)element, element);
    return true;
  }
  return false;
}

void tm_describe_in_kernel(char *text, size_t size, const tm_launch *launch, const void *place) {
  if (!describe_argument(text, size, launch, place)) tm_describe(text, size, place);
}

static bool is_overflow(const tm_worker *worker) {
  const size_t distance = (size_t)(worker->fault_address - worker->stacks), stride = STACK_BYTES + PAGE;
  return distance < MAX_BLOCK * stride && distance % stride < PAGE;
}

void tm_report_fault(tm_worker *worker) {
  char what[400], line[300], where[100];
  const tm_launch *launch = worker->launch;
  tm_source_line(line, sizeof line, launch->module, worker->fault_place);
  if (worker->plain || worker->current == NULL)
    snprintf(where, sizeof where, "block (%u,%u,%u)", worker->block.x, worker->block.y, worker->block.z);
  else {
    const tm_dim t = worker->current->thread.threadIdx;
    snprintf(where, sizeof where, "block (%u,%u,%u), thread (%u,%u,%u)", worker->block.x, worker->block.y, worker->block.z,
             t.x, t.y, t.z);
  }
  if (worker->fault_signal == SIGFPE)
    tm_block_error(worker, LAUNCH_FAILED, "%s: integer division by zero at %s", where, line);
  else if (is_overflow(worker))
    tm_block_error(worker, LAUNCH_FAILED, "%s: more than %d bytes of private memory at %s", where, STACK_BYTES, line);
  else if (worker->fault_address == NULL)
    tm_block_error(worker, ILLEGAL_ADDRESS, "%s: illegal or misaligned address at %s", where, line);
  else {
    tm_describe_in_kernel(what, sizeof what, launch, worker->fault_address);
    tm_block_error(worker, ILLEGAL_ADDRESS, "%s: illegal address at %s: %s", where, line, what);
  }
}
