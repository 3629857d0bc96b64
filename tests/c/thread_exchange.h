/// An exchange among threads of a process.
#pragma once

#include <pthread.h>
#include <sinew.h>

enum { MOST_THREADS = 8 };

/// The memory that the threads share.
typedef struct thread_board {
  pthread_barrier_t barrier;
  int size;
  const void* bytes[MOST_THREADS];
  size_t lengths[MOST_THREADS];
} thread_board;

/// The side of one thread.
typedef struct thread_side {
  thread_board* board;
  int rank;
} thread_side;

void make_board(thread_board* board, int size);
/// The exchange of one thread. Lifetime: `side` outlives the exchange.
sinew_exchange exchange_of(thread_side* side);
