#include "options.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sinew/core/base/shown_value.hpp>
#include <sinew/core/call/determinism.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/core/numeric/codec.hpp>
#include <sinew/parallel/job/pipeline_schedule.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/tools/common/option_values.hpp>
#include <sinew/tools/common/whole_number.hpp>

namespace gpt {
namespace {

using sinew::DType;

const std::map<std::string, DType> kTypes{{"f64", DType::F64}, {"f32", DType::F32}, {"bf16", DType::BF16}};
const std::map<std::string, sp::Recompute> kRecompute{
    {"none", sp::Recompute::None}, {"selective", sp::Recompute::Selective}, {"full", sp::Recompute::Full}};
const std::map<std::string, sp::Reshard> kReshard{{"forward", sp::Reshard::AfterForward},
                                                  {"backward", sp::Reshard::AfterBackward}};
const std::map<std::string, sinew::Codec> kCodecs{{"none", sinew::Codec::None},
                                                  {"bf16", sinew::Codec::Bf16},
                                                  {"f16", sinew::Codec::F16},
                                                  {"int8", sinew::Codec::Int8},
                                                  {"f8e4m3", sinew::Codec::F8E4M3}};
const std::map<std::string, sp::WeightWire> kWeights{{"plain", sp::WeightWire::Plain}, {"int8", sp::WeightWire::Int8}};
const std::map<std::string, sinew::Determinism> kLevels{{"fast", sinew::Determinism::Fast},
                                                        {"reproducible", sinew::Determinism::Reproducible},
                                                        {"layout_invariant", sinew::Determinism::LayoutInvariant}};

const std::map<std::string, sp::DispatchKind> kDispatches{{"all_gather", sp::DispatchKind::AllGather},
                                                          {"all_to_all", sp::DispatchKind::AllToAll},
                                                          {"hierarchical", sp::DispatchKind::Hierarchical}};
constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, T& value, const std::map<std::string, T>& names,
                        const std::string& help) {
  const auto read = [&value, &names](const std::string& text) { value = names.at(text); };
  std::vector<std::string> all;
  std::string now;
  for (const auto& [name, of_name] : names) {
    all.push_back(name);
    if (of_name == value) now = name;
  }
  return app.add_option_function<std::string>(flag, read, help)->transform(sinew::tools::one_of(all))->default_str(now);
}

CLI::Option* add_bytes(CLI::App& app, const std::string& flag, std::int64_t& value, const std::string& help) {
  const auto read = [&value, flag](const std::string& text) {
    try {
      value = static_cast<std::int64_t>(sinew::parse_bytes(text));
    } catch (const std::exception&) {
      throw CLI::ValidationError(
          flag, "'" + sinew::shown_value(text) + "': expected a size in bytes such as 0, 64MiB or 2GiB");
    }
  };
  return app.add_option_function<std::string>(flag, read, help)->type_name("BYTES");
}

[[noreturn]] void refuse(const std::string& why) { throw NoRun{2, fmt::format("gpt: {}\n", why)}; }

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
  app.option_defaults()->group("Layout");
  sp::JobConfig& job = o.job;
  app.add_option("--dp", job.layout.dp, "Data-parallel ranks; 0: what the others leave");
  app.add_option("--tp", job.layout.tp, "Tensor-parallel ranks");
  app.add_flag("--sp", job.sequence_parallel, "Tensor-parallel ranks share rows between layers, too");
  app.add_option("--pp", job.layout.pp, "Ranks of a pipeline");
  app.add_option(
      "--schedule", job.schedule,
      "Of the pipeline: gpipe, 1f1b, interleaved, looped-bfs, zb-h1, zb-v, dualpipev, or a file that ends with .csv");
  app.add_option("--virtual-stages", job.virtual_stages,
                 "Of each of its ranks; zb-v and dualpipev have 2, all others 1 unless said");
  app.add_flag("--tp-overlap", job.decomposed, "With --sp: rows travel while others are multiplied");
  app.add_option("--cp", job.layout.cp, "Context-parallel ranks");
  app.add_option("--ulysses", o.ulysses, "Of these, ranks that share attention heads; the others make a ring")
      ->transform(sinew::tools::whole_number(1, 1 << 20));
  app.add_option("--ep", job.layout.ep, "Ranks that experts are spread over");
  app.add_option("--etp", job.layout.etp, "Ranks that share each expert");
  app.add_option("--zero", job.zero,
                 "What data-parallel ranks shard: 0 nothing, 1 optimizer, 2 gradients, 3 parameters");
  app.add_option("--replicas", job.replicas, "Copies of what --zero 3 shards (hsdp); 1: sharded over all");
  add_choice(app, "--reshard", job.reshard, kReshard, "Free gathered parameters after this pass");
  add_bytes(app, "--prefetch", job.prefetch_bytes,
            "Gathered parameters at a time, at most; 0: of two units, with their gradients");
  add_choice(app, "--codec", job.codec, kCodecs, "How gradients travel");
  app.add_flag("--error-feedback", job.error_feedback, "Add what coding took to the next step's gradients");
  add_choice(app, "--weights", job.weights, kWeights, "How parameters travel with --zero 3 (ZeRO++)");
  app.add_flag("--int4", job.int4_gradients, "Gradients travel as int4 with --zero 3 (ZeRO++)");
  app.add_option("--near", job.near_ranks, "Ranks of a host, which keep gathered parameters between them (ZeRO++)");
  add_choice(app, "--determinism", job.determinism, kLevels, "What the bits of sums may depend on");
  add_bytes(app, "--memory", job.memory_bytes, "That a rank may take; 0: no limit");
}

void add_experts(CLI::App& app, Options& o) {
  app.option_defaults()->group("Experts");
  ExpertsShape& e = o.shape.experts;
  app.add_option("--experts", e.count, "In the place of a block's MLP; 0: none");
  app.add_option("--experts-every", e.every, "Every so many blocks one with experts");
  app.add_option("--top-k", e.top_k, "Experts for each token");
  app.add_option_function<std::string>(
         "--router", [&e](const std::string& score) { e.sigmoid = score == "sigmoid"; }, "What makes scores of logits")
      ->transform(sinew::tools::one_of({"softmax", "sigmoid"}))
      ->default_str("softmax");
  app.add_option("--router-groups", e.groups, "Of experts, evenly; a token goes to some of them only");
  app.add_option("--router-chosen", e.chosen, "How many of these groups");
  app.add_option("--capacity", e.capacity,
                 "An expert takes ceil(tokens of a sequence * top-k / experts * this); 0: all there are");
  app.add_flag("--drop-by-position", e.drop_by_position, "Of what is more the last positions, else the smallest gates");
  app.add_option("--balance", e.auxiliary, "Coefficient of the auxiliary loss of each sequence");
  app.add_option("--z-loss", e.z, "Coefficient of the router's z loss");
  app.add_option("--balance-bias", e.bias_rate, "By which biases of the choice follow the load in each step");
  add_choice(app, "--dispatch", o.experts.kind, kDispatches, "How tokens get to experts");
  app.add_option("--expert-chunks", o.experts.chunks, "Of each rank's experts: some travel while others compute")
      ->transform(sinew::tools::whole_number(1, 1 << 20));
}

void add_model(CLI::App& app, Options& o, Types& types) {
  app.option_defaults()->group("Model");
  app.add_option("--layers", o.shape.layers, "Blocks");
  app.add_option("--heads", o.shape.heads, "Attention heads");
  app.add_option("--width", o.shape.width, "Elements of an activation");
  app.add_option("--context", o.shape.context, "Bytes of a sequence");
  app.add_option("--kv-heads", o.shape.key_value_heads, "Of keys and values, that attention heads share; 0: as many");
  app.add_option("--mamba", o.shape.mamba_every,
                 "Every so many blocks one with a selective scan in the place of attention; 0: none");
  app.add_flag("--mamba2", o.shape.mamba2, "These scans are those of Mamba-2");
  app.add_flag("--sinks", o.shape.sinks, "Attention heads have a learnt score that every query sees");
  app.add_option("--dropout", o.shape.dropout, "Share of what a block adds that is dropped");
  app.add_option("--document-end", o.shape.document_end,
                 "The byte after which another document begins: 10 for lines; -1: none");
  add_choice(app, "--dtype", types.parameter, kTypes, "Of parameters; bf16 adds gradients up in f32");
  app.add_option_function<std::string>(
         "--gradient-dtype", [&](const std::string& t) { types.gradient = kTypes.at(t); },
         "What gradients are added up and summed in")
      ->transform(sinew::tools::one_of({"f64", "f32", "bf16"}));
  app.add_option_function<std::string>(
         "--output-dtype", [&](const std::string& t) { types.output = kTypes.at(t); },
         "What a block hands on to the next")
      ->transform(sinew::tools::one_of({"f64", "f32", "bf16"}));
  add_choice(app, "--recompute", o.job.recompute, kRecompute, "What the backward pass computes again");
  app.add_option("--seed", o.job.seed, "Of initial values and of the order of the data")
      ->transform(sinew::tools::whole_number(0, std::numeric_limits<std::int64_t>::max()));
}

/// Reads "none", "dynamic" or a number above 0.
std::optional<sp::LossScalerOptions> loss_scale_in(const std::string& flag, std::string text) {
  if (text == "none") return std::nullopt;
  if (text == "dynamic") return sp::LossScalerOptions{};
  if (!sinew::tools::number(sinew::tools::Least::Above0)(text).empty())
    throw CLI::ValidationError(flag, "'" + sinew::shown_value(text) + "': expected dynamic, none, or a number above 0");
  return sp::LossScalerOptions{.initial = std::stod(text), .is_fixed = true};
}

/// Reads numbers of steps with commas between them, and sorts them.
std::vector<std::int64_t> steps_in(const std::string& flag, const std::string& text) {
  std::vector<std::int64_t> steps;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (!sinew::tools::whole_number(0, kMostSteps)(word).empty())
      throw CLI::ValidationError(flag, "'" + sinew::shown_value(text) + "': expected numbers of steps, 0 to " +
                                           std::to_string(kMostSteps) + ", such as 3 or 3,7");
    steps.push_back(std::stoll(word));
  }
  std::ranges::sort(steps);
  return steps;
}

void add_scaling(CLI::App& app, Options& o) {
  app.option_defaults()->group("Training");
  const std::string scale = "--loss-scale", overflow = "--overflow-at";
  app.add_option_function<std::string>(
         scale, [&o, scale](const std::string& text) { o.loss_scale = loss_scale_in(scale, text); },
         "Multiplies the loss for gradients: dynamic (a step that overflows is skipped), a number, or none")
      ->type_name("SCALE")
      ->default_str("none");
  app.add_option_function<std::string>(
         overflow, [&o, overflow](const std::string& text) { o.overflow_at = steps_in(overflow, text); },
         "Steps, such as 3,7, in which one gradient of the last rank becomes infinite: for tests")
      ->type_name("STEPS");
}

void add_training(CLI::App& app, Options& o) {
  app.option_defaults()->group("Training");
  app.add_option("--steps", o.steps,
                 "Steps in all, those before --resume among them; the learning rate falls until the last of them")
      ->transform(sinew::tools::whole_number(0, kMostSteps));
  app.add_option("--batch", o.job.global_batch, "Sequences of one step, all ranks together");
  app.add_option("--micro-batches", o.job.micro_batches, "Passes into which a rank cuts its part of the batch");
  app.add_option("--rate", o.rate, "Learning rate of AdamW")
      ->transform(sinew::tools::number(sinew::tools::Least::Above0));
  app.add_option("--warmup", o.warmup, "Steps until that rate")->transform(sinew::tools::whole_number(0, kMostSteps));
  app.add_option("--weight-decay", o.weight_decay, "Of AdamW: a step takes this share of a parameter, times the rate")
      ->transform(sinew::tools::number(sinew::tools::Least::Is0));
  app.add_option("--clip", o.clip, "Largest norm of the gradients; 0: any")
      ->transform(sinew::tools::number(sinew::tools::Least::Is0));
  app.add_option("--blas", o.blas, "Who multiplies matrices")->transform(sinew::tools::one_of({"host", "cublas"}));
  app.add_option("--device", o.device,
                 "Where the model is and computes: host, cuda (a device for each rank of a host), or cuda:N")
      ->type_name("DEVICE");
  app.add_flag("--tf32", o.tf32, "Multiply f32 matrices on a device with TF32: faster, ten bits of each factor");
  app.add_option("--blas-threads", o.blas_threads, "Of each rank")->transform(sinew::tools::whole_number(1, 1024));
}

void add_files(CLI::App& app, Options& o) {
  app.option_defaults()->group("Files");
  app.add_option("--data", o.data, "The text; without it the licence texts of the system")->type_name("FILE");
  app.add_option("--metrics", o.metrics, "A JSON object per step")->type_name("FILE");
  app.add_option("--plot", o.plot, "The losses as a drawing (SVG)")->type_name("FILE");
  app.add_option("--save", o.save, "Where checkpoints go")->type_name("DIR");
  app.add_option("--save-every", o.save_every, "Steps between them; there is one after the last step, too")
      ->transform(sinew::tools::whole_number(1, kMostSteps));
  app.add_option("--resume", o.resume, "Go on from the newest checkpoint; where it is --save, too, start without one")
      ->type_name("DIR");
  app.add_option("--offload", o.offload, "A folder for activations between their forward and their backward pass")
      ->type_name("DIR");
  app.add_option("--buddy-copies", o.buddy_copies,
                 "Steps between copies of each rank's state in the memory of another rank, from which the others go on "
                 "when the rank dies; 0: none")
      ->transform(sinew::tools::whole_number(0, std::numeric_limits<std::int64_t>::max()));
  app.add_flag("--elastic", o.elastic, "When ranks die the others go on (sinew-run --on-failure continue)");
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
      "  sinew-run -n 4 gpt --experts 8 --ep 4 --steps 50        eight experts in each block, two on each rank\n"
      "  sinew-run -n 4 --restarts 2 gpt --save DIR --resume DIR starts again where it was saved\n"
      "  sinew-run -n 4 --on-failure continue gpt --elastic      goes on with those that are left when ranks die\n"
      "  gpt --plan --plan-ranks 64 --batch 64 --layers 37 --heads 32 --width 4096 --context 2048 --dtype bf16\n"
      "Ends with 0 when all steps are done, 2 when it cannot be done as asked, 1 when it failed, and 75 when SIGTERM\n"
      "asked for the end and a checkpoint of the last step is in --save.",
      "gpt");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
  app.get_formatter()->column_width(34);
  add_layout(app, o);
  add_model(app, o, types);
  add_experts(app, o);
  add_training(app, o);
  add_scaling(app, o);
  add_files(app, o);
  app.option_defaults()->group("Options");
  app.add_flag("--plan", o.plan, "Say what would be made and what memory a rank would take under each row, and end");
  app.add_flag("--explain", o.explain, "Say which exchanges were removed, merged and moved before the first step");
  app.add_option("--plan-ranks", o.plan_ranks, "For so many ranks; 0: those that there are")
      ->transform(sinew::tools::whole_number(0, 1000000));
  app.set_config("--config", "", "A file of these options, a line each: zero = 3")->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (CLI::Option* option : app.get_options()) sinew::tools::expect_type(*option);
  sinew::tools::expect_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto [code, text] = sinew::tools::outcome_of(app, e);
    throw NoRun{code, code == 0 ? text : fmt::format("gpt: {}\n", text)};
  }
  o.job.precision = types.precision();
  const int cp = o.job.layout.cp;
  if (o.ulysses > 1 && (cp < 1 || cp % o.ulysses != 0))
    refuse(fmt::format("--ulysses {}: expected a divisor of --cp {}", o.ulysses, cp));
  if (o.ulysses > 1) o.job.layout.cp_levels = {o.ulysses, cp / o.ulysses};
  const auto needs = [&app](const char* option, const char* other) {
    if (app.count(option) > 0 && app.count(other) == 0) refuse(fmt::format("{}: expected {}, too", option, other));
  };
  needs("--save-every", "--save");
  needs("--plan-ranks", "--plan");
  needs("--mamba2", "--mamba");
  for (const char* of_experts :
       {"--experts-every", "--top-k", "--router", "--router-groups", "--router-chosen", "--capacity",
        "--drop-by-position", "--balance", "--z-loss", "--balance-bias", "--dispatch", "--expert-chunks"})
    needs(of_experts, "--experts");
  needs("--drop-by-position", "--capacity");
  if (app.count("--schedule") > 0 && app.count("--pp") == 0 && app.count("--virtual-stages") == 0)
    refuse(fmt::format("--schedule {}: expected --pp or --virtual-stages, too", o.job.schedule));
  const sp::NamedGenerator* const generator = sp::find_generator(o.job.schedule);
  if (generator != nullptr && app.count("--virtual-stages") == 0)
    o.job.virtual_stages = o.job.layout.pp > 1 ? generator->least_virtual_stages : 1;
  o.job.proved = sp::proved_schedule(o.job);
  if (o.device != "host") {
    if (o.blas != "host")
      refuse(fmt::format("--device {} --blas {}: a device multiplies with its own library; leave --blas out", o.device,
                         o.blas));
    if (o.elastic || o.buddy_copies > 0)
      refuse(fmt::format("--device {} {}: only a model on the host can do that; leave one of the two out", o.device,
                         o.elastic ? "--elastic" : "--buddy-copies"));
  } else if (o.tf32) {
    refuse("--tf32: expected --device, too");
  }
  if (o.blas == "cublas" && o.job.determinism == sinew::Determinism::LayoutInvariant)
    refuse("--blas cublas --determinism layout_invariant: products of that level are made by sinew's own kernel");
  return o;
}

}  // namespace gpt
