#include "thread_exchange.h"

#include "check.h"

void make_board(thread_board* board, int size) {
  board->size = size;
  REQUIRE(size >= 1 && size <= MOST_THREADS);
  REQUIRE(pthread_barrier_init(&board->barrier, NULL, (unsigned)size) == 0);
}

static sinew_status gather(void* context, const void* mine, size_t bytes, sinew_gathered* all) {
  const thread_side* side = context;
  thread_board* board = side->board;
  board->bytes[side->rank] = mine;
  board->lengths[side->rank] = bytes;
  pthread_barrier_wait(&board->barrier);
  for (int r = 0; r < board->size; ++r) OK(sinew_gathered_put(all, r, board->bytes[r], board->lengths[r]));
  pthread_barrier_wait(&board->barrier);
  return SINEW_OK;
}

sinew_exchange exchange_of(thread_side* side) {
  return (sinew_exchange){sizeof(sinew_exchange), side->rank, side->board->size, gather, side};
}
