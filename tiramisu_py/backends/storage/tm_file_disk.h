/* What a simulated disk does: copies late, early, or at random times, at the rates that it is said to have. A part of
   tm_file.c, which includes it once its queues and operations are defined. */
#ifndef TM_FILE_DISK_H
#define TM_FILE_DISK_H

/* The next operation of a queue of a simulated disk. */
static void simulate_next(queue *q) {
  operation *const o = q->first;
  carry_out(q, o);
  q->first = o->next;
  if (q->first == NULL) q->last = &q->first;
  q->done++;
  free(o);
}

static uint64_t next_random(tm_file_call *call) {
  call->random ^= call->random << 13, call->random ^= call->random >> 7, call->random ^= call->random << 17;
  return call->random;
}

/* What a simulated disk does while the host issues something: nothing if lazy, anything, or all. */
static void simulate_some(tm_file_call *call) {
  enum { LAZY = 0, SHUFFLED = 1, MOODS = 3 };
  const int mood = call->disk.timing >= 0 ? call->disk.timing : (int)(call->disk.seed % MOODS);
  if (mood == LAZY) return;
  for (int n = 0; n < 2 * QUEUES || mood != SHUFFLED; n++) {
    queue *const some = &call->queues[next_random(call) % QUEUES], *const other = &call->queues[1 - some->number];
    queue *const q = some->first != NULL ? some : other;
    if (q->first == NULL || (mood == SHUFFLED && next_random(call) % 2 == 0)) return;
    simulate_next(q);
  }
}

/* A simulated queue is busy for so much longer. */
static void keep_busy(queue *q, size_t bytes) {
  const disk *const like = &q->call->disk;
  const double rate = q->number == TM_FILE_STORES ? like->write : like->read, begin = now();
  if (rate <= 0 && like->latency <= 0) return;
  if (q->free_at < begin) q->free_at = begin;
  q->free_at += like->latency + (rate > 0 ? (double)bytes / rate : 0);
}

/* A load that is under way may have changed any byte that it will write. */
static void spoil(const operation *o) {
  const bool staged = o->stage.copy != NULL;
  if (staged) memset(o->stage.memory, 0xff, CHUNK);
  for (size_t plane = 0; plane < o->box.planes; plane++)
    for (size_t line = 0; line < o->box.lines; line++) {
      char *const there = o->memory + plane * o->box.target_plane + line * o->box.target_pitch;
      if (!staged) memset(there, 0xff, o->box.run);
      for (size_t at = 0; at < o->box.run && staged; at += CHUNK)
        deliver(o, there + at, o->stage.memory, o->box.run - at < CHUNK ? o->box.run - at : CHUNK);
    }
}

#endif
