/// The C tests share these: checks that name their line, and elements of every type with small whole numbers.
#pragma once

#include <sinew.h>
#include <stddef.h>
#include <stdint.h>

/// Fails the program unless `holds`.
#define REQUIRE(holds) require_((holds) != 0, #holds, __FILE__, __LINE__)
/// Fails the program unless the status is SINEW_OK. Prints the last error otherwise.
#define OK(status) require_ok_((status), #status, __FILE__, __LINE__)
/// Fails the program unless the status is `expected` and the last error's message contains `part`.
#define REFUSED(status, expected, part) require_refused_((status), (expected), (part), #status, __FILE__, __LINE__)

void require_(int holds, const char* what, const char* file, int line);
void require_ok_(sinew_status status, const char* what, const char* file, int line);
void require_refused_(sinew_status status, sinew_status expected, const char* part, const char* what, const char* file,
                      int line);
/// The number of REQUIRE, OK and REFUSED that have held.
long checks_made(void);

/// Memory of `count` elements, each of which is 1 bit away from every number that tests write.
void* elements_of(sinew_dtype dtype, size_t count);
/// Writes a whole number from 0 to 16 as element `i`. SINEW_BOOL takes 0 and 1.
void put(sinew_dtype dtype, void* elements, size_t i, int number);
/// True if element `i` is this number, bit by bit.
int is_number(sinew_dtype dtype, const void* elements, size_t i, int number);

/// Where the tests run.
typedef struct job {
  sinew_world world;
  sinew_communicator all;
  int rank;
  int size;
  int multiple;  ///< not 0: the World is of SINEW_THREADS_MULTIPLE
} job;

/// Ways to start a call: it waits, it is waited for, or its status is asked for again and again.
enum { WAITS, WAITED, TESTED, WAYS };
/// Ends a call that was started as `way` says. `work` is what `work_of` gave.
sinew_status ended(int way, sinew_status started, sinew_work* work);
/// The pointer that a call of this way takes.
sinew_work* work_of(int way, sinew_work* work);

void test_reductions(const job* j);
void test_blocks(const job* j);
void test_v_forms(const job* j);
void test_lists(const job* j);
void test_messages(const job* j);
void test_plans(const job* j);
void test_objects(const job* j);
void test_works(const job* j);
