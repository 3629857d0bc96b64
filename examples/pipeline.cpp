// A pipeline schedule, proved, timed and drawn: pipeline_example 1f1b 4 8, or interleaved 4 8 2 step.svg
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <string>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/timeline/picture.hpp>
#include <sinew/parallel/pipeline/timeline/simulate.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

#include "usage.hpp"

namespace sp = sinew::parallel;

int main(int argc, char** argv) {
  if (example::is_asked_for_usage(argc, argv,
                                  "pipeline_example [SCHEDULE [RANKS [MICRO_BATCHES [STAGES_PER_RANK [SVG_FILE]]]]]"))
    return 0;
  const auto number = [&](int place, int otherwise) { return argc > place ? std::atoi(argv[place]) : otherwise; };
  try {
    const sp::PipelineSchedule schedule =
        sp::with_messages(sp::make_schedule(argc > 1 ? argv[1] : "1f1b", number(2, 4), number(3, 8),
                                            argc > 4 ? std::optional<std::int32_t>(number(4, 1)) : std::nullopt));
    const sp::PipelineVerdict verdict = sp::prove(schedule, {.most_under_way = 1});
    if (!verdict) {
      std::printf("%s\n", verdict.reason.c_str());
      return 1;
    }
    const sp::PipelineTimeLine line = sp::simulate(schedule);
    for (std::int32_t r = 0; r < schedule.ranks(); ++r)
      std::printf("rank %2d  idle %5.1f %%  live activations %d\n", r, 100 * line.idle_share(r),
                  verdict.live.by_rank[static_cast<std::size_t>(r)]);
    if (argc > 5 && !(std::ofstream(argv[5]) << sp::svg_of(schedule, line))) {
      std::fprintf(stderr, "pipeline_example: cannot write '%s'\n", argv[5]);
      return 1;
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pipeline_example: %s\n", e.what());
    return 2;
  }
}
