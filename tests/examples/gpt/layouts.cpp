#include "layouts.hpp"

#include <algorithm>
#include <cmath>
#include <gpt/train/trainer.hpp>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/pipeline/generators.hpp>
#include <sinew/parallel/random/keyed.hpp>
#include <support/worlds.hpp>

namespace gpt::test {
namespace {

namespace sp = sinew::parallel;

constexpr int kSpace = 32;

double largest(const std::vector<double>& of) {
  double most = 0;
  for (const double x : of) most = std::max(most, std::abs(x));
  return most;
}

/// f(path, number of an element in the whole, its gradient) of all that this rank owns.
template <class F>
void for_each_gradient(const std::vector<ParameterInfo>& infos, std::span<const sp::OwnedPart> owned, const F& f) {
  for (const sp::OwnedPart& part : owned) {
    const ParameterInfo& info = infos[static_cast<std::size_t>(part.parameter)];
    const auto* gradient = reinterpret_cast<const double*>(part.gradient.data);
    for (std::int64_t k = part.first; k < part.last; ++k)
      f(info, static_cast<std::size_t>(info.whole_number(k)), gradient[k - part.first]);
  }
}

std::string name_of(int ranks, const sp::JobConfig& job) {
  const sp::LayoutSizes& l = job.layout;
  return fmt::format("{} ranks: dp {} cp {} ({} share heads) tp {}{}{}, zero {}", ranks, ranks / l.cp / l.tp / l.pp,
                     l.cp, sp::head_sharers(job), l.tp, job.sequence_parallel ? " with rows cut" : "",
                     job.decomposed ? " and on their way" : "", job.zero) +
         (sp::stages(job) > 1 ? fmt::format(", pp {}, {} stages of {}", l.pp, sp::stages(job), job.schedule) : "");
}

sinew::WorldOptions threads() { return sinew::test::only("inproc"); }

}  // namespace

Text words(bool others) {
  const sp::KeyedRandom random(3, others ? "other words" : "words");
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t word = 0; bytes.size() < 4000; ++word) {
    const auto spaces = static_cast<std::ptrdiff_t>(random.below(4 * word, 8));
    const std::uint64_t letters = 1 + random.below(4 * word + 1, 6);
    for (std::uint64_t i = 0; i < letters; ++i)
      bytes.push_back(static_cast<std::uint8_t>('a' + random.below(4 * word + 2, 26 + i) % 26));
    bytes.insert(bytes.end(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(spaces - 2, 1)), kSpace);
  }
  return {"words", std::move(bytes)};
}

void Deviation::add(const Deviation& other) {
  runs += other.runs;
  if (other.gradient > gradient || of_gradient.empty()) gradient = other.gradient, of_gradient = other.of_gradient;
  if (other.loss > loss || of_loss.empty()) loss = other.loss, of_loss = other.of_loss;
}

Training train_alone(const Options& options, const Text& text) {
  Training all;
  sinew::test::on_threads(1, threads(), [&](sinew::World& world) {
    Trainer trainer(world, options, text);
    const auto watch = [&](std::span<const sp::OwnedPart> owned, double scale) {
      for (const ParameterInfo& info : trainer.infos())
        all.gradients[info.path].resize(static_cast<std::size_t>(info.elements()));
      for_each_gradient(trainer.infos(), owned, [&](const ParameterInfo& info, std::size_t number, double gradient) {
        all.gradients[info.path][number] = scale * gradient;
      });
    };
    for (std::int64_t step = 0; step < options.steps; ++step)
      all.losses.push_back(trainer.step(step, step == 0 ? Trainer::Watcher(watch) : Trainer::Watcher()).loss);
  });
  return all;
}

Deviation train_together(int ranks, const Options& options, const Training& alone, const Text& text, int changed) {
  Deviation worst{.runs = 1, .of_gradient = name_of(ranks, options.job), .of_loss = name_of(ranks, options.job)};
  std::map<std::string, double> scales;
  for (const auto& [path, gradient] : alone.gradients) scales[path] = largest(gradient);
  const Text other = words(true);
  std::mutex mutex;
  sinew::test::on_threads(ranks, threads(), [&](sinew::World& world) {
    Text mine_to_read = text;
    Trainer trainer(world, options, mine_to_read);
    if (world.rank() == changed) mine_to_read = other;  // behind the back of those who compare
    Deviation mine;
    const auto note = [](double& most, double now) { most = std::isfinite(now) ? std::max(most, now) : 1e300; };
    const auto watch = [&](std::span<const sp::OwnedPart> owned, double scale) {
      for_each_gradient(trainer.infos(), owned, [&](const ParameterInfo& info, std::size_t number, double gradient) {
        note(mine.gradient, std::abs(scale * gradient - alone.gradients.at(info.path)[number]) / scales.at(info.path));
      });
    };
    for (std::int64_t step = 0; step < options.steps; ++step) {
      const double loss = trainer.step(step, step == 0 ? Trainer::Watcher(watch) : Trainer::Watcher()).loss;
      note(mine.loss, std::abs(loss / alone.losses[static_cast<std::size_t>(step)] - 1));
    }
    const std::lock_guard lock(mutex);
    worst.gradient = std::max(worst.gradient, mine.gradient);
    worst.loss = std::max(worst.loss, mine.loss);
  });
  return worst;
}

std::vector<sp::JobConfig> layouts_of(int ranks, const Options& options) {
  std::vector<sp::JobConfig> all;
  const sp::EngineFacts engine = engine_facts(options.shape);
  for (int tp = 1; tp <= ranks; ++tp) {
    for (int cp = 1; cp <= ranks / tp; ++cp) {
      for (int sharers = 1; sharers <= cp; ++sharers) {
        if (ranks % (tp * cp) != 0 || cp % sharers != 0) continue;
        for (int rows = 0; rows < 3; ++rows) {
          for (int zero = 0; zero <= 3; ++zero) {
            sp::JobConfig job = options.job;
            job.layout.tp = tp;
            job.layout.cp = cp;
            if (sharers > 1) job.layout.cp_levels = {sharers, cp / sharers};
            job.sequence_parallel = rows > 0;
            job.decomposed = rows > 1;
            job.zero = zero;
            if (sp::violations(ranks, job, engine).empty()) all.push_back(job);
          }
        }
      }
    }
  }
  return all;
}

std::vector<sp::JobConfig> pipelines_of(int ranks, const Options& options) {
  std::vector<sp::JobConfig> all;
  const sp::EngineFacts engine = engine_facts(options.shape);
  for (int pp = 1; pp <= ranks; ++pp) {
    for (int tp = 1; tp <= ranks / pp; ++tp) {
      for (int cp = 1; cp <= ranks / pp / tp; ++cp) {
        if (ranks % (pp * tp * cp) != 0) continue;
        for (const sp::NamedGenerator& generator : sp::generators()) {
          for (int zero = 0; zero <= 3; ++zero) {
            sp::JobConfig job = options.job;
            job.layout.pp = pp;
            job.layout.tp = tp;
            job.layout.cp = cp;
            job.sequence_parallel = tp > 1 && zero % 2 == 1;
            job.schedule = generator.name;
            job.virtual_stages = generator.has_virtual_stages ? 2 : 1;
            if (generator.name != "zb-h1" && zero > 0)  // whose weights' gradients come later
              job.recompute = zero == 1 ? sp::Recompute::Selective : sp::Recompute::Full;
            job.zero = zero;
            if (sp::stages(job) > 1 && sp::violations(ranks, job, engine).empty()) all.push_back(job);
          }
        }
      }
    }
  }
  return all;
}

std::vector<std::pair<std::string, Options>> models_of_pipelines() {
  Options plain = models().front().second;
  plain.shape.layers = 5;
  plain.job.micro_batches = 4;
  Options much = plain;
  much.shape.mamba_every = 3;
  much.shape.key_value_heads = 2;
  much.shape.sinks = true;
  much.shape.dropout = 0.1;
  much.job.micro_batches = 3;
  return {{"pipelines: plain", plain}, {"pipelines: scans, shared heads, sinks, dropout", much}};
}

std::vector<std::pair<std::string, Options>> models() {
  Options plain;
  plain.shape = {.layers = 2, .heads = 8, .width = 40, .context = 9};
  plain.job.global_batch = 24;
  plain.job.precision = {sinew::DType::F64, sinew::DType::F64, sinew::DType::F64};
  plain.steps = 20;
  plain.warmup = 5;
  Options much = plain;
  much.shape.heads = 10;
  much.shape.key_value_heads = 2;
  much.shape.sinks = true;
  much.shape.dropout = 0.1;
  much.shape.document_end = kSpace;
  much.job.micro_batches = 3;
  much.job.recompute = sp::Recompute::Full;
  Options scans = plain;
  scans.shape.mamba_every = 2;
  scans.job.recompute = sp::Recompute::Selective;
  return {{"plain", plain},
          {"shared heads, dropout, documents, three passes, recomputed", much},
          {"every second block a scan", scans}};
}

}  // namespace gpt::test
