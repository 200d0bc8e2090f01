#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulator.h"

static __thread tm_options own;
static __thread bool configured;

uint64_t tm_mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

uint32_t tm_random(uint64_t *state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(*state >> 33);
}

/* The position of a word in a list of words, or -1. */
static int choice(const char *word, const char *const *words) {
  for (int i = 0; words[i] != NULL; i++)
    if (strcmp(word, words[i]) == 0) return i;
  return -1;
}

static bool set_choice(const char *value, const char *const *words, int *result) {
  const int found = choice(value, words);
  if (found < 0) return false;
  *result = found;
  return true;
}

static bool set_number(const char *value, int least, int most, int *result) {
  char *end;
  const long number = strtol(value, &end, 10);
  if (*value == '\0' || *end != '\0' || number < least || number > most) return false;
  *result = (int)number;
  return true;
}

static bool set_switch(const char *value, bool *result) {
  int number;
  if (!set_number(value, 0, 1, &number)) return false;
  *result = number == 1;
  return true;
}

static const char *const timings[] = {"eager", "lazy", "shuffled", "threads", NULL};
static const char *const orders[] = {"forward", "reverse", "random", NULL};
static const char *const sides[] = {"right", "left", NULL};
static const char *const pageable[] = {"async", "staged", NULL};

static bool set(tm_options *options, int *timing, int *order, const char *name, const char *value) {
  int number;
  if (strcmp(name, "seed") == 0) {
    char *end;
    options->seed = strtoull(value, &end, 0);
    options->seeded = true;
    return *value != '\0' && *end == '\0';
  }
  if (strcmp(name, "timing") == 0) return set_choice(value, timings, timing);
  if (strcmp(name, "order") == 0) return set_choice(value, orders, order);
  if (strcmp(name, "devices") == 0) return set_number(value, 0, MAX_DEVICES, &options->devices);
  if (strcmp(name, "workers") == 0) return set_number(value, 1, 256, &options->workers);
  if (strcmp(name, "delay") == 0) return set_number(value, 0, 1000000, &options->delay);
  if (strcmp(name, "shared") == 0) return set_number(value, 0, SHARED_LIMIT, &options->shared);
  if (strcmp(name, "poison") == 0) return set_switch(value, &options->poison);
  if (strcmp(name, "pools") == 0) return set_switch(value, &options->pools);
  if (strcmp(name, "stages") == 0) return set_switch(value, &options->stages);
  if (strcmp(name, "pageable") == 0) {
    if (!set_choice(value, pageable, &number)) return false;
    options->staged = number == 1;
    return true;
  }
  if (strcmp(name, "guard") == 0) {
    if (!set_choice(value, sides, &number)) return false;
    options->guard_left = number == 1;
    return true;
  }
  return false;
}

/* A seed alone asks for adversity: threads and blocks in random order, odd seeds lazy streams, even ones shuffled. */
static void conclude(tm_options *options, int timing, int order, bool own_workers) {
  const bool adverse = options->seeded;
  options->timing = timing >= 0 ? (tm_timing)timing : !adverse ? EAGER : options->seed % 2 == 1 ? LAZY : SHUFFLED;
  options->order = order >= 0 ? (tm_order)order : adverse ? RANDOM : FORWARD;
  if (options->order != FORWARD || (options->seeded && !own_workers)) options->workers = 1;
}

static int parse(const char *text, tm_options *result) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  tm_options options = {.seed = 1, .devices = 2, .workers = processors > 0 ? (int)processors : 1, .shared = SHARED_LIMIT, .poison = true};
  int timing = -1, order = -1;
  bool own_workers = false;
  char copy[512], *rest;
  snprintf(copy, sizeof copy, "%s", text != NULL ? text : "");
  for (char *word = strtok_r(copy, " ,", &rest); word != NULL; word = strtok_r(NULL, " ,", &rest)) {
    char *value = strchr(word, '=');
    if (value == NULL) return tm_fail(INVALID_VALUE, "simulator: the option %s has no value", word);
    *value++ = '\0';
    if (!set(&options, &timing, &order, word, value))
      return tm_fail(INVALID_VALUE, "simulator: no such option: %s=%s", word, value);
    own_workers = own_workers || strcmp(word, "workers") == 0;
  }
  conclude(&options, timing, order, own_workers);
  options.random = tm_mixed(options.seed);
  *result = options;
  return SUCCESS;
}

tm_options *tm_own_options(void) {
  if (!configured) {
    configured = true;
    if (parse(getenv("TM_SIMULATOR"), &own) != SUCCESS) parse(NULL, &own);
  }
  return &own;
}

/* For the calling thread, from now on: "seed=7 timing=lazy devices=2"; NULL or "" as at the start. Words:
   seed=N; timing=eager|lazy|shuffled|threads; order=forward|reverse|random; devices=0..8; workers=1..256 (threads of the
   host that run blocks); delay=microseconds (at most, before an operation, with timing=threads); shared=bytes (that a block
   may have); poison=0|1; pageable=async|staged (host memory that is not pinned); guard=right|left (of allocations); pools=0|1 (let the runtime
   keep freed memory); stages=0|1 (let it stage downloads into memory that is not pinned, as it does on real devices). */
__attribute__((visibility("default"))) int tm_simulator_configure(const char *text) {
  tm_options options;
  const int code = parse(text, &options);
  if (code != SUCCESS) return code;
  own = options;
  configured = true;
  return SUCCESS;
}

__attribute__((visibility("default"))) int tm_simulator_pools(void) { return tm_own_options()->pools; }

__attribute__((visibility("default"))) int tm_simulator_stages(void) { return tm_own_options()->stages; }
