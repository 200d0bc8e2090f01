/* Drives tm_file.c as generated code does: boxes of many shapes to files and back, beside a model in memory. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tm_file.h"

#define CHECK(...) do { if (!(__VA_ARGS__)) { printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #__VA_ARGS__, tm_file_error()); exit(1); } } while (0)

static unsigned state = 1;
static size_t some(size_t below) { return (state = state * 1664525u + 1013904223u, (state >> 8) % below); }

/* Boxes of rows and columns go out from random memory, and come back to other memory. */
static void boxes(const char *folder, size_t rows, size_t width) {
  tm_file_call *call;
  tm_file *file;
  tm_file_event *events;
  unsigned char *model = calloc(rows, width), *memory = malloc(rows * width), *back = malloc(rows * width);
  CHECK(tm_file_begin(&call, "boxes", folder) == 0);
  CHECK(tm_file_open(call, "levels", rows, width, &file) == 0);
  CHECK(tm_file_events(call, 2, &events) == 0);
  for (int turn = 0; turn < 40; turn++) {
    const size_t row = some(rows), left = some(width), high = 1 + some(rows - row), wide = 1 + some(width - left);
    const bool whole = turn % 3 == 0;
    const size_t column = whole ? 0 : left, run = whole ? width : wide;
    for (size_t at = 0; at < rows * width; at++) memory[at] = (unsigned char)some(256);
    const tm_file_box out = {.run = run, .lines = high, .planes = 1, .target_pitch = width, .source_pitch = run};
    CHECK(tm_file_store(call, "out", file, row * width + column, memory, &out, NULL, turn % 2) == 0);
    CHECK(tm_file_record(call, TM_FILE_STORES, &events[0]) == 0);
    for (size_t line = 0; line < high; line++) memcpy(model + (row + line) * width + column, memory + line * run, run);
    CHECK(tm_file_wait(call, &events[0]) == 0);
    const tm_file_box in = {.run = width, .lines = rows, .planes = 1, .target_pitch = width, .source_pitch = width};
    CHECK(tm_file_load(call, "in", back, file, 0, &in, NULL, false) == 0);
    CHECK(tm_file_record(call, TM_FILE_LOADS, &events[1]) == 0);
    CHECK(tm_file_wait(call, &events[1]) == 0);
    CHECK(memcmp(back, model, rows * width) == 0);
  }
  CHECK(tm_file_close(call, file) == 0);
  CHECK(tm_file_end(call, 0) == 0);
  free(model), free(memory), free(back);
}

/* Many operations under way at a time, each way. */
static void pipelined(const char *folder) {
  enum { LEVELS = 60, WIDTH = 20000, RING = 4 };
  tm_file_call *call;
  tm_file *file;
  tm_file_event *stored, *loaded;
  unsigned char *ring = malloc((size_t)RING * WIDTH);
  const tm_file_box box = {.run = WIDTH, .lines = 1, .planes = 1};
  CHECK(tm_file_begin(&call, "pipelined", folder) == 0);
  CHECK(tm_file_open(call, "levels", LEVELS, WIDTH, &file) == 0);
  CHECK(tm_file_events(call, LEVELS, &stored) == 0 && tm_file_events(call, LEVELS, &loaded) == 0);
  for (int level = 0; level < LEVELS; level++) {
    if (level >= RING) CHECK(tm_file_wait(call, &stored[level - RING]) == 0);
    unsigned char *const own = ring + (size_t)(level % RING) * WIDTH;
    memset(own, level, WIDTH);
    CHECK(tm_file_store(call, "out", file, (size_t)level * WIDTH, own, &box, NULL, false) == 0);
    CHECK(tm_file_record(call, TM_FILE_STORES, &stored[level]) == 0);
  }
  CHECK(tm_file_wait(call, &stored[LEVELS - 1]) == 0);
  for (int level = LEVELS + RING - 2; level >= 0; level--) {
    const int ahead = level - RING + 1;
    if (ahead >= 0) {
      CHECK(tm_file_load(call, "in", ring + (size_t)(ahead % RING) * WIDTH, file, (size_t)ahead * WIDTH, &box, NULL, false) == 0);
      CHECK(tm_file_record(call, TM_FILE_LOADS, &loaded[ahead]) == 0);
    }
    if (level >= LEVELS) continue;
    CHECK(tm_file_wait(call, &loaded[level]) == 0);
    for (size_t at = 0; at < WIDTH; at++) CHECK(ring[(size_t)(level % RING) * WIDTH + at] == level);
  }
  const char *names[2];
  int64_t out[2], in[2];
  CHECK(tm_file_end(call, 0) == 0);
  CHECK(tm_file_copies(2, names, out, in) == 2);
  CHECK(strcmp(names[0], "out") == 0 && out[0] == (int64_t)LEVELS * WIDTH && in[0] == 0);
  CHECK(strcmp(names[1], "in") == 0 && in[1] == (int64_t)LEVELS * WIDTH && out[1] == 0);
  free(ring);
}

/* A call that fails elsewhere ends without its copies; a forked process is told that it has no queues. */
static void abandoned(const char *folder) {
  tm_file_call *call;
  tm_file *file;
  char *memory = calloc(1, 1 << 20);
  const tm_file_box box = {.run = 1 << 20, .lines = 1, .planes = 1};
  CHECK(tm_file_begin(&call, "abandoned", folder) == 0);
  CHECK(tm_file_open(call, "levels", 30, 1 << 20, &file) == 0);
  for (size_t level = 0; level < 30; level++) CHECK(tm_file_store(call, "out", file, level << 20, memory, &box, NULL, false) == 0);
  CHECK(tm_file_end(call, 7) == 7);
  free(memory);
}

static void forked(const char *folder) {
  tm_file_call *call;
  tm_file *file;
  char memory[100] = {0};
  const tm_file_box box = {.run = 100, .lines = 1, .planes = 1};
  CHECK(tm_file_begin(&call, "forked", folder) == 0);
  CHECK(tm_file_open(call, "levels", 1, 100, &file) == 0);
  CHECK(tm_file_store(call, "out", file, 0, memory, &box, NULL, true) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    CHECK(tm_file_store(call, "out", file, 0, memory, &box, NULL, true) == TM_FILE_FORK);
    CHECK(strstr(tm_file_error(), "was forked while the queues of its files were open: call forked in the new process"));
    CHECK(tm_file_end(call, TM_FILE_FORK) == TM_FILE_FORK);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(tm_file_load(call, "in", memory, file, 0, &box, NULL, true) == 0);
  CHECK(tm_file_end(call, 0) == 0);
}

/* Waits with its files open until it is killed. */
static void killed(const char *folder) {
  tm_file_call *call;
  tm_file *file;
  char memory[100] = {0};
  const tm_file_box box = {.run = 100, .lines = 1, .planes = 1};
  CHECK(tm_file_begin(&call, "killed", folder) == 0);
  CHECK(tm_file_open(call, "levels", 1000, 100, &file) == 0);
  CHECK(tm_file_store(call, "out", file, 0, memory, &box, NULL, true) == 0);
  raise(SIGKILL);
}

int main(int count, char **given) {
  const char *const folder = given[1];
  if (count > 2 && strcmp(given[2], "killed") == 0) killed(folder);
  boxes(folder, 7, 13), boxes(folder, 5, 4096), boxes(folder, 3, 16384), boxes(folder, 4, 20001);
  pipelined(folder), abandoned(folder);
  if (count > 2) forked(folder);
  printf("clean\n");
  return 0;
}
