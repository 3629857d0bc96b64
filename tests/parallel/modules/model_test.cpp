// Models in the hands of programs that make mistakes, and what they learn of them.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/join.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using ::testing::HasSubstr;

/// One number that is added to each element.
class Shift final : public Module<double> {
 public:
  explicit Shift(std::string name, bool reports = true) : name_(std::move(name)), reports_(reports) {}
  std::int64_t in_elements() const override { return 3; }
  std::int64_t out_elements() const override { return 3; }
  void declare(ParameterList& list) override {
    DataParameter p = list.like();
    p.path = name_;
    p.shape = {1};
    number_ = list.add(std::move(p), all_equal_to(0.5));
  }
  void forward(Pass<double>& pass, const double* x, Kept<double>& /*kept*/, double* out) override {
    const auto value = pass.values(number_);
    for (int i = 0; i < 3; ++i) out[i] = x[i] + value.data()[0];
  }
  void input_gradient(Pass<double>& /*pass*/, const double* /*x*/, Kept<double>& /*kept*/, const double* dout,
                      double* dx) override {
    if (dx != nullptr) std::copy_n(dout, 3, dx);
  }
  void weight_gradient(Pass<double>& pass, const double* /*x*/, Kept<double>& /*kept*/, const double* dout) override {
    pass.add_gradient(number_,
                      [&](double* to, double beta) { to[0] = (beta == 0 ? 0 : to[0]) + dout[0] + dout[1] + dout[2]; });
    if (reports_) pass.ready(number_);
  }

 private:
  std::string name_;
  bool reports_;
  std::int32_t number_ = -1;
};

ModulePtr<double> shift(const std::string& name, bool reports = true) { return std::make_unique<Shift>(name, reports); }

Allocate memory_of(World& world) {
  return [&world](std::size_t bytes) { return world.allocate(bytes); };
}

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

/// Also where parameters are sharded and some belong to no Unit.
TEST(Models, TrainParametersWithinUnitsAndOutside) {
  for (const char* row : {"ddp", "zero2", "zero3"}) {
    on_threads(2, only("inproc"), [row](World& world) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
      Model<double> model(mesh, sequence<double>(shift("a"), unit<double>("u", shift("b")), shift("c")),
                          memory_of(world), {.row = data_row(row, {"dp"}), .parameter = DType::F64});
      Optimizer sgd(model.data().memory(), SgdOptions{.rate = 1});
      const double x[3] = {1, 2, 3}, dout[3] = {0.25, 0, 0};
      double out[3];
      for (int step = 0; step < 2; ++step) {
        model.forward({}, x, out);
        require(out[2] == 4.5 - 1.5 * step, "each shift is 0.5 less in each step");
        model.backward(dout, nullptr);
        sgd.update(model.data().finish_backward());  // 0.25 from each of two ranks
        model.data().updated();
      }
      const auto scope = model.data().forward_only();
      model.evaluate({}, x, out);
      require(out[0] == 1 - 1.5, "evaluation");
    });
  }
}

/// A rank without a batch opens and closes the unit outside of all others, too.
TEST(Models, MakeShadowPasses_WhereARankHasNoBatch) {
  for (const char* row : {"ddp", "zero2", "zero3"}) {
    on_threads(2, only("inproc"), [row](World& world) {
      Mesh mesh(world.communicator(), Factorisation({{"dp", 2}}));
      Model<double> model(mesh, sequence<double>(shift("a"), unit<double>("u", shift("b")), shift("c")),
                          memory_of(world), {.row = data_row(row, {"dp"}), .parameter = DType::F64});
      Optimizer sgd(model.data().memory(), SgdOptions{.rate = 1});
      Join join(model.data());
      const double x[3] = {1, 2, 3}, dout[3] = {0.25, 0, 0};
      double out[3];
      const int batches = 1 + 2 * world.rank();
      for (int step = 0; join.next(step < batches); ++step) {
        if (step < batches) {
          model.forward({}, x, out);
          require(out[2] == 4.5 - (step == 0 ? 0 : 0.75 + 0.75 * step), "less by the gradients of one or two ranks");
          model.backward(dout, nullptr);
        } else {
          model.shadow_pass();
        }
        sgd.update(model.data().finish_backward());
        model.data().updated();
      }
      const auto scope = model.data().forward_only();
      if (world.rank() == 0) {
        model.shadow_pass();
      } else {
        model.evaluate({}, x, out);
        require(out[0] == 2.5 - 3, "four gradients in three steps");
      }
    });
  }
}

TEST(Models, SayThatABackwardPassHasNoForwardPass) {
  on_threads(1, only("inproc"), [](World& world) {
    HostBlas blas;
    Communicator none;
    Mesh mesh(world.communicator(), Factorisation({{"dp", 1}}));
    const LayerGroup group{none, &blas};
    Model<double> model(mesh,
                        std::make_unique<EmbeddingModule<double>>(
                            group, EmbeddingShape{.name = "e", .rows = 1, .vocabulary = 5, .width = 2}),
                        memory_of(world), {.row = data_row("ddp", {"dp"}), .parameter = DType::F64});
    const std::vector<std::int64_t> good{1}, bad{99};
    const std::vector<double> dout{1, 1};
    double out[2];
    const auto backward = [&] { model.backward(dout.data(), nullptr); };
    EXPECT_THAT(complaint(backward), HasSubstr("without a forward pass"));
    EXPECT_THAT(complaint([&] { model.forward({.tokens = bad}, nullptr, out); }), HasSubstr("99"));
    EXPECT_THAT(complaint(backward), HasSubstr("without a forward pass"));
    model.data().abandon_step();
    model.forward({.tokens = good}, nullptr, out);
    model.data().abandon_step();
    EXPECT_THAT(complaint(backward), HasSubstr("a forward pass that was given up"));
    model.forward({.tokens = good}, nullptr, out);
    backward();
    EXPECT_EQ(model.data().finish_backward().size(), 1);
  });
}

TEST(Models, SayWhichParametersAreDeclaredWrongly) {
  on_threads(1, only("inproc"), [](World&) {
    ParameterList list({.unit = "model", .spread = "pp"});
    DataParameter part = list.like();
    part.path = "w";
    part.shape = {4, 2};
    part.box = {{0, 0}, {2, 2}};
    EXPECT_THAT(complaint([&] { list.add(part, all_equal_to(0)); }),
                HasSubstr("'w' is a part of a parameter of shape [4, 2], but is spread along 'pp' only"));
    part.spread = "pp-tp";
    EXPECT_EQ(list.add(part, all_equal_to(0)), 0);
    EXPECT_THAT(complaint([&] { unit<double>("outer", unit<double>("inner", shift("s")))->declare(list); }),
                HasSubstr("unit 'inner' is within unit 'outer'"));
  });
}

TEST(Models, SayThatPositionsAreOfOtherRanks) {
  on_threads(2, only("inproc"), [](World& world) {
    HostBlas blas;
    Communicator none;
    const std::string said = complaint([&] {
      AttentionModule<double>(LayerGroup{none, &blas}, ContextGroup{none, world.communicator()},
                              AttentionShape{.name = "a", .width = 4, .positions = SequenceCut::zig_zag(5, 1)});
    });
    require(said == "attention 'a': positions are cut over 1 ranks, expected 2, those of both context groups", said);
  });
}

/// Makes a pipelined model of two ranks; `name` and the rest may differ from what is right.
struct Options {
  std::string name = "b";
  std::string spread = "pp";
  bool has_input = true, reports = true;
};
std::string pipeline_error(World& world, const Options& o) {
  Mesh mesh(world.communicator(), Factorisation({{"dp", 1}, {"pp", 2}}));
  std::vector<ModulePtr<double>> stages;
  stages.push_back(world.rank() == 0 ? shift("a") : shift(o.name, o.reports));
  PipelineEnds<double> ends{.loss = [](std::int32_t, double*) {}};
  if (o.has_input) ends.input = [](std::int32_t, double* x) { std::fill_n(x, 3, 1.0); };
  return error_of([&] {
    PipelinedModel<double> model(mesh, mesh.along("pp"), with_messages(gpipe(2, 2)), std::move(stages), ends,
                                 memory_of(world),
                                 {.row = data_row("ddp", {"dp"}), .parameter = DType::F64, .spread = o.spread});
    model.step();
  });
}

TEST(PipelinedModels, SayOnAllRanksWhatIsWrongOnOne) {
  on_threads(2, only("inproc"), [](World& world) {
    require(pipeline_error(world, {}).empty(), "a model without a fault");
    const auto says = [&](const Options& o, const std::string& text) {
      const std::string said = pipeline_error(world, o);
      require(said.find(text) != std::string::npos, said);
    };
    says({.has_input = false}, "the first stage takes elements, expected PipelineEnds::input");
    says({.spread = ""}, "ModelOptions::spread is empty");
    says({.name = "a"}, "two stages have a parameter 'a'");
    const std::string said = pipeline_error(world, {.reports = false});
    require(world.rank() == 0 ||
                said.find("the gradient of 'b' was reported 0 times, expected 2: once in each microbatch") !=
                    std::string::npos,
            said);
  });
}

}  // namespace
}  // namespace sinew::parallel
