#include "options.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include <sinew/core/codec.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/determinism.hpp>
#include <sinew/core/dtype.hpp>

namespace gpt {
namespace {

namespace sp = sinew::parallel;
using sinew::DType;

const std::map<std::string, DType> kTypes{{"f64", DType::F64}, {"f32", DType::F32}, {"bf16", DType::BF16}};
const std::map<std::string, sp::Recompute> kRecompute{
    {"none", sp::Recompute::None}, {"selective", sp::Recompute::Selective}, {"full", sp::Recompute::Full}};
const std::map<std::string, sp::Reshard> kReshard{{"forward", sp::Reshard::AfterForward},
                                                  {"backward", sp::Reshard::AfterBackward}};
const std::map<std::string, sinew::Codec> kCodecs{{"none", sinew::Codec::None},
                                                  {"bf16", sinew::Codec::Bf16},
                                                  {"f16", sinew::Codec::F16},
                                                  {"int8", sinew::Codec::Int8}};
const std::map<std::string, sinew::Determinism> kLevels{{"fast", sinew::Determinism::Fast},
                                                        {"reproducible", sinew::Determinism::Reproducible},
                                                        {"layout_invariant", sinew::Determinism::LayoutInvariant}};

template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, T& value, const std::map<std::string, T>& names,
                        const std::string& help) {
  const auto read = [&value, &names](const std::string& text) { value = names.at(text); };
  std::vector<std::string> all;
  for (const auto& [name, unused] : names) all.push_back(name);
  return app.add_option_function<std::string>(flag, read, help)->check(CLI::IsMember(all));
}

CLI::Option* add_bytes(CLI::App& app, const std::string& flag, std::int64_t& value, const std::string& help) {
  const auto read = [&value, flag](const std::string& text) {
    try {
      value = static_cast<std::int64_t>(sinew::parse_bytes(text));
    } catch (const std::exception&) {
      throw CLI::ValidationError(flag, "'" + text + "': expected a size in bytes such as 0, 64MiB or 2GiB");
    }
  };
  return app.add_option_function<std::string>(flag, read, help)->type_name("BYTES");
}

/// Types that only --dtype is to decide unless they are given themselves.
struct Types {
  DType parameter = DType::F32;
  std::optional<DType> gradient, output;

  sp::Precision precision() const {
    const DType computed = parameter == DType::F64 ? DType::F64 : DType::F32;
    return {parameter, gradient.value_or(computed), output.value_or(computed)};
  }
};

void add_layout(CLI::App& app, Options& o) {
  constexpr const char* kGroup = "Layout";
  sp::JobConfig& job = o.job;
  app.add_option("--dp", job.layout.dp, "Data-parallel ranks; 0: what the others leave")->group(kGroup);
  app.add_option("--tp", job.layout.tp, "Tensor-parallel ranks")->group(kGroup);
  app.add_flag("--sp", job.sequence_parallel, "Tensor-parallel ranks share rows between layers, too")->group(kGroup);
  app.add_option("--pp", job.layout.pp, "Ranks of a pipeline")->group(kGroup);
  app.add_option("--schedule", job.schedule,
                 "Of the pipeline: gpipe, 1f1b, interleaved, looped-bfs, zb-h1, or a file that ends with .csv")
      ->group(kGroup);
  app.add_option("--virtual-stages", job.virtual_stages, "Of each of its ranks")->group(kGroup);
  app.add_flag("--tp-overlap", job.decomposed, "With --sp: rows travel while others are multiplied")->group(kGroup);
  app.add_option("--cp", job.layout.cp, "Context-parallel ranks")->group(kGroup);
  app.add_option("--ulysses", o.ulysses, "Of these, ranks that share attention heads; the others make a ring")
      ->check(CLI::Range(1, 1 << 20))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--ep", job.layout.ep, "Expert-parallel ranks")->group(kGroup);
  app.add_option("--zero", job.zero,
                 "What data-parallel ranks shard: 0 nothing, 1 optimizer, 2 gradients, 3 parameters")
      ->group(kGroup);
  app.add_option("--replicas", job.replicas, "Copies of what --zero 3 shards (hsdp); 1: sharded over all")
      ->group(kGroup);
  add_choice(app, "--reshard", job.reshard, kReshard, "Free gathered parameters after this pass")->group(kGroup);
  add_bytes(app, "--prefetch", job.prefetch_bytes, "Of gathered parameters at most; 0: two units, twice")
      ->group(kGroup);
  add_choice(app, "--codec", job.codec, kCodecs, "How gradients travel")->group(kGroup);
  app.add_flag("--error-feedback", job.error_feedback, "Add what coding took to the next step's gradients")
      ->group(kGroup);
  add_choice(app, "--determinism", job.determinism, kLevels, "What the bits of sums may depend on")->group(kGroup);
  add_bytes(app, "--memory", job.memory_bytes, "That a rank may take; 0: no limit")->group(kGroup);
}

void add_model(CLI::App& app, Options& o, Types& types) {
  constexpr const char* kGroup = "Model";
  app.add_option("--layers", o.shape.layers, "Blocks")->group(kGroup)->capture_default_str();
  app.add_option("--heads", o.shape.heads, "Attention heads")->group(kGroup)->capture_default_str();
  app.add_option("--width", o.shape.width, "Elements of an activation")->group(kGroup)->capture_default_str();
  app.add_option("--context", o.shape.context, "Bytes of a sequence")->group(kGroup)->capture_default_str();
  app.add_option("--kv-heads", o.shape.key_value_heads, "Of keys and values, that attention heads share; 0: as many")
      ->group(kGroup);
  app.add_option("--mamba", o.shape.mamba_every,
                 "Every so many blocks one with a selective scan in the place of attention; 0: none")
      ->group(kGroup);
  app.add_flag("--sinks", o.shape.sinks, "Attention heads have a learnt score that every query sees")->group(kGroup);
  app.add_option("--dropout", o.shape.dropout, "Share of what a block adds that is dropped")->group(kGroup);
  app.add_option("--document-end", o.shape.document_end,
                 "The byte after which another document begins: 10 for lines; -1: none")
      ->group(kGroup);
  add_choice(app, "--dtype", types.parameter, kTypes, "Of parameters; bf16 adds gradients up in f32")->group(kGroup);
  app.add_option_function<std::string>(
         "--gradient-dtype", [&](const std::string& t) { types.gradient = kTypes.at(t); },
         "What gradients are added up and summed in")
      ->check(CLI::IsMember({"f64", "f32", "bf16"}))
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--output-dtype", [&](const std::string& t) { types.output = kTypes.at(t); },
         "What a block hands on to the next")
      ->check(CLI::IsMember({"f64", "f32", "bf16"}))
      ->group(kGroup);
  add_choice(app, "--recompute", o.job.recompute, kRecompute, "What the backward pass computes again")->group(kGroup);
  app.add_option("--seed", o.job.seed, "Of initial values and of the order of the data")->group(kGroup);
}

void add_training(CLI::App& app, Options& o) {
  constexpr const char* kGroup = "Training";
  app.add_option("--steps", o.steps, "Steps in all, those before --resume among them")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--batch", o.job.global_batch, "Sequences of one step, all ranks together")
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--micro-batches", o.job.micro_batches, "Passes into which a rank cuts its part of the batch")
      ->group(kGroup);
  app.add_option("--rate", o.rate, "Learning rate of AdamW")
      ->check(CLI::PositiveNumber)
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "Steps until that rate")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--weight-decay", o.weight_decay)->check(CLI::NonNegativeNumber)->group(kGroup)->capture_default_str();
  app.add_option("--clip", o.clip, "Largest norm of the gradients; 0: any")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--blas", o.blas, "Who multiplies matrices")
      ->check(CLI::IsMember({"openblas", "cublas"}))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--blas-threads", o.blas_threads, "Of each rank")
      ->check(CLI::Range(1, 1024))
      ->group(kGroup)
      ->capture_default_str();
}

void add_files(CLI::App& app, Options& o) {
  constexpr const char* kGroup = "Files";
  app.add_option("--data", o.data, "The text; without it the licence texts of the system")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--metrics", o.metrics, "A JSON object per step")->type_name("FILE")->group(kGroup);
  app.add_option("--plot", o.plot, "The losses as a drawing (SVG)")->type_name("FILE")->group(kGroup);
  app.add_option("--save", o.save, "Where checkpoints go")->type_name("DIR")->group(kGroup);
  app.add_option("--save-every", o.save_every, "Steps between them; there is one after the last step, too")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--resume", o.resume, "Go on from the newest checkpoint; where it is --save, too, start without one")
      ->type_name("DIR")
      ->group(kGroup);
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options o;
  o.job.global_batch = 16;
  Types types;
  CLI::App app(
      "Trains a GPT on bytes of text, on as many ranks as start it, by a layout that its options say.\n"
      "  gpt --steps 50                                          one process\n"
      "  sinew-run -n 4 gpt --zero 3 --steps 50                  four, parameters sharded\n"
      "  sinew-run -n 4 gpt --tp 2 --sp --zero 1 --steps 50      layers cut over two, their rows, too\n"
      "  sinew-run -n 4 gpt --cp 4 --ulysses 2 --steps 50        sequences cut over four, heads shared by two\n"
      "  sinew-run -n 4 --restarts 2 gpt --save DIR --resume DIR starts again where it was saved\n"
      "  gpt --plan --plan-ranks 64 --batch 64 --layers 37 --heads 32 --width 4096 --context 2048 --dtype bf16\n"
      "Ends with 0 when all steps are done, 2 when it cannot be done as asked, 1 when it failed.",
      "gpt");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.get_formatter()->column_width(34);
  add_layout(app, o);
  add_model(app, o, types);
  add_training(app, o);
  add_files(app, o);
  app.add_flag("--plan", o.plan, "Say what would be made and what memory a rank would take under each row, and end");
  app.add_option("--plan-ranks", o.plan_ranks, "For so many ranks; 0: those that there are")
      ->check(CLI::Range(0, 1000000));
  app.set_config("--config", "", "A file of these options, a line each: zero = 3")->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out, err;
    const int code = app.exit(e, out, err);
    throw NoRun{code == 0 ? 0 : 2, code == 0 ? out.str() : err.str()};
  }
  o.job.precision = types.precision();
  const auto refuse = [](const std::string& why) { throw NoRun{2, why + "\nRun with --help for more information.\n"}; };
  const int cp = o.job.layout.cp;
  if (o.ulysses > 1 && (cp < 1 || cp % o.ulysses != 0))
    refuse("--ulysses " + std::to_string(o.ulysses) + ": expected a divisor of --cp " + std::to_string(cp));
  if (o.ulysses > 1) o.job.layout.cp_levels = {o.ulysses, cp / o.ulysses};
  if (o.blas == "cublas" && o.job.determinism == sinew::Determinism::LayoutInvariant)
    refuse("--blas cublas --determinism layout_invariant: products of that level are made by sinew's own kernel");
  for (const auto& [name, value] :
       {std::pair("--rate", o.rate), {"--weight-decay", o.weight_decay}, {"--clip", o.clip}}) {
    if (!std::isfinite(value)) refuse(std::string(name) + ": expected a number");
  }
  return o;
}

double rate_at(const Options& options, std::int64_t step) noexcept {
  constexpr double kLowest = 0.1;
  if (step < options.warmup) return options.rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  const auto rest = static_cast<double>(std::max<std::int64_t>(options.steps - options.warmup, 1));
  const double gone = std::min(static_cast<double>(step - options.warmup) / rest, 1.0);
  return options.rate * (kLowest + (1 - kLowest) * 0.5 * (1 + std::cos(std::numbers::pi * gone)));
}

}  // namespace gpt
