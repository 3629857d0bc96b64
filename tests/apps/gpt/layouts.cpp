#include "layouts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gpt/train/plan.hpp>
#include <gpt/train/trainer.hpp>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/transport/drain.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/job/job_rules.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <support/worlds.hpp>

#include "fakes/fake_blas.hpp"
#include "fakes/fake_kernels.hpp"
#include "support/fake_devices.hpp"

namespace gpt::test {
namespace {

namespace sp = sinew::parallel;

constexpr int kSpace = 32;

double largest(const std::vector<double>& of) {
  double most = 0;
  for (const double x : of) most = std::max(most, std::abs(x));
  return most;
}

std::vector<double> on_host(sinew::Buffer numbers, const sp::ComputeDevice& device) {
  std::vector<double> here(numbers.bytes / sizeof(double));
  if (here.empty()) return here;
  const sinew::Buffer to(reinterpret_cast<std::byte*>(here.data()), numbers.bytes);
  if (device.exists()) {
    device.runtime->copy_async(to, numbers, device.stream);
    sinew::drain(*device.runtime, device.stream);
  } else {
    std::memcpy(to.data, numbers.data, numbers.bytes);
  }
  return here;
}

/// f(path, number of an element in the whole, its gradient) of all that this rank owns.
template <class F>
void for_each_gradient(const sp::DataParallel& data, std::span<const sp::OwnedPart> owned, const F& f) {
  for (const sp::OwnedPart& part : owned) {
    const sp::DataParameter& info = data.parameters()[static_cast<std::size_t>(part.parameter)];
    const std::vector<double> gradient = on_host(part.gradient, data.device());
    for (std::int64_t k = part.first; k < part.last; ++k)
      f(info, static_cast<std::size_t>(info.number_in_whole(k)), gradient[static_cast<std::size_t>(k - part.first)]);
  }
}

std::string name_of(int ranks, const sp::JobConfig& job) {
  const sp::LayoutSizes& l = job.layout;
  return fmt::format("{} ranks: dp {} cp {} ({} share heads) tp {}{}{}, zero {}", ranks, ranks / l.cp / l.tp / l.pp,
                     l.cp, sp::head_sharers(job), l.tp, job.sequence_parallel ? " with rows cut" : "",
                     job.decomposed ? " and on their way" : "", job.zero) +
         (l.ep > 1 || l.etp > 1 ? fmt::format(", ep {} etp {}", l.ep, l.etp) : "") +
         (sp::stages(job) > 1 ? fmt::format(", pp {}, {} stages of {}", l.pp, sp::stages(job), job.schedule) : "") +
         (job.recompute != sp::Recompute::None ? fmt::format(", recompute {}", sp::name_of(job.recompute)) : "");
}

bool route_alike(const sp::RouterReport& a, const sp::RouterReport& b) {
  return a.routed == b.routed && a.dropped == b.dropped && a.imbalance == b.imbalance &&
         a.worst_layer == b.worst_layer && a.worst_expert == b.worst_expert &&
         std::abs(a.auxiliary - b.auxiliary) <= 1e-9 * b.auxiliary && std::abs(a.z - b.z) <= 1e-9 * b.z;
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
  routed += other.routed;
  if (other.gradient > gradient || of_gradient.empty()) gradient = other.gradient, of_gradient = other.of_gradient;
  if (other.loss > loss || of_loss.empty()) loss = other.loss, of_loss = other.of_loss;
}

Training train_alone(const Options& options, const Text& text) {
  Training all;
  sinew::test::on_threads(1, threads(), [&](sinew::World& world) {
    Trainer trainer(world, options, text);
    const auto watch = [&](const sp::DataParallel& data, std::span<const sp::OwnedPart> owned, double scale) {
      for (const sp::DataParameter& info : data.parameters())
        all.gradients[info.path].resize(static_cast<std::size_t>(info.elements));
      for_each_gradient(data, owned, [&](const sp::DataParameter& info, std::size_t number, double gradient) {
        all.gradients[info.path][number] = scale * gradient;
      });
    };
    for (std::int64_t step = 0; step < options.steps; ++step) {
      const StepReport report = trainer.step(step, step == 0 ? Trainer::Watcher(watch) : Trainer::Watcher());
      all.losses.push_back(report.loss);
      all.norms.push_back(report.norm);
      all.routers.push_back(report.routers);
    }
  });
  return all;
}

namespace {

/// Trains on one rank of several, and compares it with one process.
class ComparisonWithOne {
 public:
  ComparisonWithOne(int ranks, const Options& options, const Training& alone)
      : options_(&options),
        alone_(&alone),
        worst_{.runs = 1, .of_gradient = name_of(ranks, options.job), .of_loss = name_of(ranks, options.job)} {
    for (const auto& [path, gradient] : alone.gradients) scales_[path] = largest(gradient);
  }

  void train(Trainer& trainer) {
    Deviation mine;
    const auto note = [](double& most, double now) { most = std::isfinite(now) ? std::max(most, now) : 1e300; };
    const auto watch = [&](const sp::DataParallel& data, std::span<const sp::OwnedPart> owned, double scale) {
      for_each_gradient(data, owned, [&](const sp::DataParameter& info, std::size_t number, double gradient) {
        note(mine.gradient,
             std::abs(scale * gradient - alone_->gradients.at(info.path)[number]) / scales_.at(info.path));
      });
    };
    for (std::int64_t step = 0; step < options_->steps; ++step) {
      const StepReport report = trainer.step(step, step == 0 ? Trainer::Watcher(watch) : Trainer::Watcher());
      note(mine.loss, std::abs(report.loss / alone_->losses[static_cast<std::size_t>(step)] - 1));
      if (step == 0) note(mine.gradient, std::abs(report.norm / alone_->norms.front() - 1));
      mine.routed += route_alike(report.routers, alone_->routers[static_cast<std::size_t>(step)]) ? 0 : 1;
    }
    const std::lock_guard lock(mutex_);
    worst_.gradient = std::max(worst_.gradient, mine.gradient);
    worst_.loss = std::max(worst_.loss, mine.loss);
    worst_.routed = std::max(worst_.routed, mine.routed);
  }

  const Deviation& worst() const noexcept { return worst_; }

 private:
  const Options* options_;
  const Training* alone_;
  std::map<std::string, double> scales_;
  std::mutex mutex_;
  Deviation worst_;
};

}  // namespace

Deviation train_together(int ranks, const Options& options, const Training& alone, const Text& text, int changed) {
  ComparisonWithOne comparison(ranks, options, alone);
  const Text other = words(true);
  sinew::test::on_threads(ranks, threads(), [&](sinew::World& world) {
    Text mine_to_read = text;
    Trainer trainer(world, options, mine_to_read);
    if (world.rank() == changed) mine_to_read = other;  // behind the back of those who compare
    comparison.train(trainer);
  });
  return comparison.worst();
}

Deviation train_on_devices(int ranks, const Options& options, const Training& alone, const Text& text) {
  sinew::fake::add_parallel_kernels();
  ComparisonWithOne comparison(ranks, options, alone);
  sinew::test::on_devices(ranks, "inproc", [&](sinew::World& world, const sinew::test::OnDevice& where) {
    Trainer trainer(
        world, options, text,
        ModelPlace(std::make_unique<sinew::fake::FakeBlas>(sp::ComputeDevice{&where.runtime, where.stream})));
    comparison.train(trainer);
  });
  return comparison.worst();
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

namespace {

/// Such schedules do not go with recomputation.
bool makes_weights_later(const sp::NamedGenerator& generator) {
  return generator.name == "zb-h1" || generator.name == "zb-v" || generator.name == "dualpipev";
}

}  // namespace

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
            job.virtual_stages = generator.virtual_stages(2);
            if (!makes_weights_later(generator) && zero > 0)  // whose weights' gradients come later
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

std::vector<std::pair<sp::JobConfig, ExpertsWay>> expert_layouts_of(int ranks, const Options& options) {
  std::vector<std::pair<sp::JobConfig, ExpertsWay>> all;
  const sp::EngineFacts engine = engine_facts(options.shape);
  const auto each_divisor = [](int of, const auto& f) {
    for (int d = 1; d <= of; ++d) {
      if (of % d == 0) f(d);
    }
  };
  const auto add = [&](sp::JobConfig job) {
    for (const sp::NamedGenerator& generator : sp::generators()) {
      const bool is_pipeline = job.layout.pp > 1;
      job.schedule = generator.name;
      job.virtual_stages = is_pipeline ? generator.virtual_stages(2) : 1;
      if (makes_weights_later(generator)) job.recompute = sp::Recompute::None;  // whose weights' gradients come later
      const int turn = static_cast<int>(all.size()) % 4;
      for (int zero = 0; zero <= 3; ++zero) {
        job.zero = zero;
        if (job.layout.etp > 1 && zero != turn) continue;  // where experts are cut, one in turn
        if (!sp::violations(ranks, job, engine).empty()) continue;
        const auto number = static_cast<int>(all.size());
        all.emplace_back(job, ExpertsWay{static_cast<sp::DispatchKind>(number % 3), 1 + number % 4});
      }
      job.recompute = options.job.recompute;
      if (!is_pipeline) return;  // schedules are all the same
    }
  };
  each_divisor(ranks, [&](int pp) {
    each_divisor(ranks / pp, [&](int tp) {
      each_divisor(ranks / pp / tp, [&](int cp) {
        each_divisor(ranks / pp, [&](int ep) {
          each_divisor(ranks / pp / ep, [&](int etp) {
            sp::JobConfig job = options.job;
            job.layout = {.tp = tp, .cp = cp, .pp = pp, .ep = ep, .etp = etp, .cp_levels = {}};
            job.sequence_parallel = tp > 1;
            add(job);
          });
        });
      });
    });
  });
  return all;
}

std::vector<std::pair<std::string, Options>> models_with_experts() {
  Options limited = models().front().second;
  limited.shape.layers = 4;
  limited.shape.width = 16;
  limited.shape.experts = {.count = 6, .top_k = 2, .capacity = 1.1, .auxiliary = 0.01, .z = 0.001};
  limited.job.micro_batches = 2;
  Options free = limited;
  free.shape.key_value_heads = 2;
  free.shape.dropout = 0.1;
  free.shape.experts = {.count = 8,
                        .every = 2,
                        .top_k = 3,
                        .sigmoid = true,
                        .groups = 4,
                        .chosen = 2,
                        .auxiliary = 0.001,
                        .bias_rate = 0.001};
  free.job.micro_batches = 3;
  free.job.recompute = sp::Recompute::Full;
  return {{"experts: capacity, balance losses", limited},
          {"experts: every second block, groups, biases, dropout, recomputed", free}};
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

std::vector<std::pair<std::string, Options>> models_to_draw_from() {
  std::vector<std::pair<std::string, Options>> all;
  for (const auto& some : {models(), models_of_pipelines(), models_with_experts()})
    all.insert(all.end(), some.begin(), some.end());
  for (const std::size_t scaled : {std::size_t{3}, std::size_t{5}}) {
    Options options = all[scaled].second;
    options.loss_scale.emplace();
    options.overflow_at = {1};
    all.emplace_back(all[scaled].first + ", a loss scale and a step that overflows", options);
  }
  all.push_back(models().back());
  all.back().first = "every second block a scan of Mamba-2";
  all.back().second.shape.mamba2 = true;
  for (auto& [name, options] : all) {
    options.shape.layers = std::max(options.shape.layers, 8);
    options.steps = 3;
  }
  return all;
}

Drawn draw_layout(const std::vector<std::pair<std::string, Options>>& models, std::uint64_t number) {
  const sp::KeyedRandom random(11, fmt::format("layout {}", number));
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return random.below(drawn++, n); };
  const auto one_of = [&]<class V>(const std::vector<V>& values) { return values[below(values.size())]; };
  for (;;) {
    const std::size_t model = below(models.size());
    Drawn all{model, one_of(std::vector{2, 3, 4, 6, 8}), models[model].second};
    sp::JobConfig& job = all.options.job;
    const std::vector<int> sizes{1, 1, 2, 2, 3, 4};
    job.layout = {.tp = one_of(sizes), .cp = one_of(sizes), .pp = one_of(sizes), .cp_levels = {}};
    if (all.options.shape.has_experts()) job.layout.ep = one_of(sizes), job.layout.etp = one_of(sizes);
    if (job.layout.cp == 4 && below(2) == 0) job.layout.cp_levels = {2, 2};
    if (all.options.shape.has_experts() || below(2) == 0) job.sequence_parallel = job.layout.tp > 1;
    job.decomposed = job.sequence_parallel && below(3) == 0;
    job.zero = static_cast<int>(below(4));
    if (job.zero == 3) job.replicas = 1 + static_cast<int>(below(2));
    const sp::NamedGenerator generator = one_of(std::vector(sp::generators().begin(), sp::generators().end()));
    if (job.layout.pp > 1) {
      job.schedule = generator.name;
      job.virtual_stages = generator.virtual_stages(2);
    }
    const bool is_late = job.layout.pp > 1 && makes_weights_later(generator);
    job.recompute = is_late ? sp::Recompute::None : static_cast<sp::Recompute>(below(3));
    if (below(4) == 0) all.options.offload = ::testing::TempDir();
    all.options.experts = {static_cast<sp::DispatchKind>(below(3)), static_cast<int>(1 + below(4))};
    if (sp::violations(all.ranks, job, engine_facts(all.options.shape)).empty()) return all;
  }
}

std::vector<Deviation> train_sample(std::uint64_t first, int runs) {
  const auto models = models_to_draw_from();
  std::vector<Deviation> all(models.size());
  std::vector<std::optional<Training>> alone(models.size());
  for (int run = 0; run < runs; ++run) {
    const Drawn drawn = draw_layout(models, first + static_cast<std::uint64_t>(run));
    std::optional<Training>& of_model = alone[drawn.model];
    if (!of_model) of_model = train_alone(models[drawn.model].second);
    all[drawn.model].add(train_together(drawn.ranks, drawn.options, *of_model));
  }
  return all;
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
