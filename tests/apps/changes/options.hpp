#pragma once

#include <cstdint>
#include <string>
#include <vector>

// A program that disturbs a training whose ranks leave and come back. It may include no other folder of tests.

namespace changes {

struct Options {
  std::string gpt, sinew_run;
  int changes = 200;
  int kills = 0;  ///< the job is also disturbed until so many processes have been killed
  std::uint64_t seed = 1;
  int ranks = 8;
  std::string hosts;  ///< as sinew-run's --hosts; empty: this host alone
  int least = 1;
  int spares = 0;
  std::int64_t steps = 4000;
  double most_off = 1e-10;         ///< of a loss
  std::int64_t compared = 0;       ///< steps whose losses are compared, from the first one on; 0: all
  std::int64_t most_lost = -1;     ///< steps that are made again after a change; -1: any number
  std::vector<std::string> kinds;  ///< those of kKindNames that are made; empty: all
  bool apart = false;              ///< each change waits until the job has all of its ranks again
  int save_every = 0;              ///< steps between the checkpoints of the job; 0: none
  std::string folder;              ///< for metrics and what jobs print; empty: one that is removed at the end
  int quiet_ms = 300;              ///< at most, between two changes
  double every_s = 0;              ///< seconds from one change to the next; 0: as fast as the job takes them
  double minutes = 0;              ///< with every_s: the time of the job; 0: until all changes are made
  std::string backoff = "10ms,50ms";
  bool one_job = false;  ///< all changes are made in one job; a job that begins anew is a failure
  bool keep = false;     ///< leaves a job that hangs alone, to be looked at
  std::vector<std::string> model;
};

}  // namespace changes
