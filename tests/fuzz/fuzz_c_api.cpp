#include <sinew.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace {

/// Takes the numbers of a test case one after the other. After the end of the case all numbers are 0.
class Reader {
 public:
  Reader(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
  bool over() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  int below(int limit) { return byte() % limit; }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

/// Handles of one kind: some are valid, some were freed, some were never made.
template <class Handle>
struct Pool {
  std::array<Handle, 6> all{};
  Handle& any(Reader& in) { return all[static_cast<std::size_t>(in.below(6))]; }
  /// A handle to pass by value, which may be made up.
  Handle passed(Reader& in) {
    Handle handle = any(in);
    if (in.below(16) == 0) handle.id = in.word();
    if (in.below(16) == 0) handle.id ^= std::uint64_t{1} << in.below(64);
    return handle;
  }
};

/// A failure has a sentence.
void check(sinew_status status) {
  if (status < SINEW_OK || status > SINEW_SYSTEM) std::abort();
  if (status > SINEW_PENDING && std::strlen(sinew_last_error_message()) == 0) std::abort();
}

sinew_status gather(void* context, const void* mine, std::size_t bytes, sinew_gathered* all) {
  const int mode = *static_cast<int*>(context);
  if (mode == 1) return SINEW_UNAVAILABLE;
  if (mode == 2) check(sinew_gathered_put(all, 5, mine, bytes));
  return sinew_gathered_put(all, 0, mine, bytes);
}

void add(void* result, const void* a, const void* b, std::size_t count, const void*) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<unsigned char*>(result)[i] =
        static_cast<unsigned char>(static_cast<const unsigned char*>(a)[i] + static_cast<const unsigned char*>(b)[i]);
  }
}

void ignore(sinew_status, const char*, int, void*) {}

/// Makes calls with arguments that come from a test case. All Worlds have one rank. Buffers and counts that the library
/// cannot judge stay inside of memory that is there.
class Caller {
 public:
  explicit Caller(Reader& in) : in_(in) { make_world(); }
  ~Caller() {
    for (sinew_world& world : worlds_.all) {
      if (world.id != 0) check(sinew_world_free(&world));
    }
    for (sinew_memory& memory : memories_.all) {
      if (memory.id != 0) check(sinew_memory_free(&memory));
    }
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void call() {
    switch (in_.below(8)) {
      case 0: return call_of_world();
      case 1: return call_of_communicator();
      case 2: return parts();
      case 3: return messages();
      case 4: return works();
      case 5: return plans_and_memory();
      default: return blocks();
    }
  }

 private:
  static constexpr std::size_t kMost = 32;  // elements of a buffer

  std::byte* memory() {
    return in_.below(12) == 0 ? nullptr : arena_.data() + 512 * static_cast<std::size_t>(in_.below(8));
  }
  std::size_t count() {
    switch (in_.below(12)) {
      case 0: return 0;
      case 1: return std::numeric_limits<std::size_t>::max();
      case 2: return std::numeric_limits<std::size_t>::max() - in_.byte();
      case 3: return std::size_t{1} << 63;
      default: return static_cast<std::size_t>(in_.below(kMost));
    }
  }
  std::uint64_t* counts() {
    static std::array<std::array<std::uint64_t, 4>, 4> lists;
    if (in_.below(12) == 0) return nullptr;
    auto& list = lists[next_list_++ % lists.size()];
    for (std::uint64_t& c : list) c = count();
    return list.data();
  }
  /// An enumerator, or another number.
  template <class Enum>
  Enum any(int enumerators) {
    return static_cast<Enum>(in_.below(12) == 0 ? static_cast<int>(in_.word()) : in_.below(enumerators));
  }
  sinew_dtype dtype() { return any<sinew_dtype>(15); }
  sinew_op op() { return any<sinew_op>(10); }
  int rank() { return in_.below(8) == 0 ? static_cast<int>(in_.word()) : 0; }
  double seconds() {
    switch (in_.below(8)) {
      case 0: return std::nan("");
      case 1: return -1;
      case 2: return std::numeric_limits<double>::infinity();
      default: return 0.001;
    }
  }
  const sinew_call_options* options() {
    if (in_.below(2) == 0) return nullptr;
    options_ = SINEW_CALL_OPTIONS_INIT;
    const int what = in_.below(10);
    if (what == 0) options_.struct_size = in_.word();
    if (what == 1) options_.determinism = any<sinew_determinism>(3);
    if (what == 2) options_.codec = any<sinew_codec>(4);
    if (what == 3) options_.memory_kind = any<sinew_memory_kind>(3);
    if (what == 4) options_.deadline_s = seconds();
    if (what == 5) options_.label = "label";
    if (what == 6) options_.site = nullptr;
    if (what == 7) options_.after = &stream_;
    if (what > 7) options_.reduce = add;
    options_.pre_multiply = in_.byte();
    options_.largest_bytes = count();
    stream_.device = in_.below(4) - 1;
    return &options_;
  }
  sinew_work* work() { return in_.below(2) == 0 ? nullptr : &works_.any(in_); }
  sinew_communicator communicator() { return communicators_.passed(in_); }

  /// Forgets handles that a second object would overwrite.
  template <class Handle, class Free>
  Handle* target(Pool<Handle>& pool, Free free) {
    if (in_.below(16) == 0) return nullptr;
    Handle& handle = pool.any(in_);
    if (handle.id != 0) check(free(&handle));
    handle.id = 0;
    return &handle;
  }

  void make_world() {
    sinew_world* world = target(worlds_, sinew_world_free);
    sinew_world_options options = SINEW_WORLD_OPTIONS_INIT;
    const std::array<const char*, 3> config{"SINEW_TIMEOUT=20ms", "SINEW_TRANSPORTS=inproc",
                                            in_.below(8) == 0 ? "SINEW_TIMEOUT=x" : "SINEW_STATS=1"};
    options.config = config.data();
    options.config_count = config.size();
    options.threads = any<sinew_threads>(2);
    if (in_.below(12) == 0) options.struct_size = in_.word();
    if (in_.below(12) == 0) options.secret_bytes = 4;
    mode_ = in_.below(12);
    sinew_exchange exchange{sizeof exchange, 0, 1, gather, &mode_};
    if (in_.below(12) == 0) exchange.rank = rank();
    if (in_.below(12) == 0) exchange.size = rank();
    if (in_.below(24) == 0) exchange.all_gather = nullptr;
    if (exchange.size > 1 && exchange.rank < exchange.size) exchange.size = 1;  // nobody else would come
    check(sinew_world_create(in_.below(24) == 0 ? nullptr : &exchange, &options, world));
    if (world != nullptr && world->id != 0) check(sinew_world_communicator(*world, &communicators_.any(in_)));
  }

  void call_of_world() {
    const sinew_world world = worlds_.passed(in_);
    int number = 0;
    std::size_t size = 0;
    std::uint64_t bytes = 0;
    std::array<char, 64> text;
    sinew_transport transport{};
    transport.struct_size = in_.below(4) == 0 ? in_.word() : sizeof transport;
    int self = rank();
    switch (in_.below(14)) {
      case 0: return check(sinew_world_rank(world, &number));
      case 1: return check(sinew_world_size(world, in_.below(4) == 0 ? nullptr : &number));
      case 2: return check(sinew_world_transport(world, in_.byte(), &transport));
      case 3: return check(sinew_world_facts(world, text.data(), in_.below(64), &size));
      case 4: return check(sinew_world_sent_bytes(world, &bytes, 1));
      case 5: return check(sinew_world_status(world));
      case 6: return check(sinew_world_poll(world, &number));
      case 7: return check(sinew_world_descriptor(world, &number));
      case 8:
        return check(sinew_world_subgroup(world, &self, in_.below(3), "part", 0.01, target(communicators_, forget)));
      case 9: return in_.below(4) == 0 ? check(sinew_world_abort(world, "fuzz")) : make_world();
      case 10: return check(sinew_world_communicator(world, &communicators_.any(in_)));
      case 11: return check(sinew_world_transport_count(world, &size));
      case 12: return check(sinew_world_free(&worlds_.any(in_)));
      default: return check(sinew_world_allocate(world, count(), 0, target(memories_, sinew_memory_free)));
    }
  }

  /// Some communicators are those of all ranks, and others have gone with their World.
  static sinew_status forget(sinew_communicator* communicator) { return sinew_communicator_free(communicator); }

  void call_of_communicator() {
    const sinew_communicator c = communicator();
    int number = 0;
    std::size_t size = 0;
    std::array<char, 64> text;
    switch (in_.below(12)) {
      case 0: return check(sinew_communicator_rank(c, &number));
      case 1: return check(sinew_communicator_size(c, &number));
      case 2: return check(sinew_communicator_world_rank(c, rank(), &number));
      case 3: return check(sinew_communicator_name(c, text.data(), in_.below(64), &size));
      case 4: return check(sinew_communicator_rank_text(c, rank(), text.data(), text.size(), nullptr));
      case 5:
        return check(sinew_communicator_split(c, rank(), rank(), nullptr, options(), target(communicators_, forget)));
      case 6: return check(sinew_communicator_free(&communicators_.any(in_)));
      case 7:
        return in_.below(4) == 0 ? check(sinew_communicator_abort(c, "fuzz"))
                                 : check(sinew_barrier(c, options(), work()));
      case 8: return check(sinew_communicator_verdict(c, text.data(), text.size(), &size));
      case 9: return check(sinew_communicator_memory_bytes(c, &size));
      case 10: return check(sinew_communicator_gather_stats(c, options()));
      default: return check(sinew_communicator_stats(c, text.data(), text.size(), &size));
    }
  }

  void blocks() {
    const sinew_communicator c = communicator();
    std::byte* a = memory();
    std::byte* b = memory();
    const std::size_t n = count();
    const sinew_dtype d = dtype();
    const sinew_op o = op();
    const int root = rank();
    const sinew_call_options* given = options();
    sinew_work* w = work();
    switch (in_.below(9)) {
      case 0: return check(sinew_all_reduce(c, a, b, n, d, o, given, w));
      case 1: return check(sinew_all_gather(c, a, b, n, d, given, w));
      case 2: return check(sinew_reduce_scatter(c, a, b, n, d, o, given, w));
      case 3: return check(sinew_all_to_all(c, a, b, n, d, given, w));
      case 4: return check(sinew_broadcast(c, a, n, d, root, given, w));
      case 5: return check(sinew_reduce(c, a, b, n, d, o, root, given, w));
      case 6: return check(sinew_gather(c, a, b, n, d, root, given, w));
      case 7: return check(sinew_scatter(c, a, b, n, d, root, given, w));
      default: return check(sinew_barrier(c, given, w));
    }
  }

  void parts() {
    const sinew_communicator c = communicator();
    std::byte* a = memory();
    std::byte* b = memory();
    void* outs[] = {b};
    const void* ins[] = {a};
    void* const* const out_list = in_.below(12) == 0 ? nullptr : outs;
    const void* const* const in_list = in_.below(12) == 0 ? nullptr : ins;
    const std::uint64_t* of_in = counts();
    const std::uint64_t* of_out = counts();
    const std::uint64_t* at_in = in_.below(2) == 0 ? nullptr : counts();
    const std::uint64_t* at_out = in_.below(2) == 0 ? nullptr : counts();
    const std::size_t n = count();
    const sinew_dtype d = dtype();
    const int root = rank();
    const sinew_call_options* given = options();
    sinew_work* w = work();
    switch (in_.below(10)) {
      case 0: return check(sinew_all_gather_v(c, a, b, of_out, at_out, d, given, w));
      case 1: return check(sinew_reduce_scatter_v(c, a, b, of_in, at_in, d, op(), given, w));
      case 2: return check(sinew_all_to_all_v(c, a, of_in, at_in, b, of_out, at_out, d, given, w));
      case 3: return check(sinew_gather_v(c, a, n, b, of_out, at_out, d, root, given, w));
      case 4: return check(sinew_scatter_v(c, a, of_in, at_in, b, n, d, root, given, w));
      case 5: return check(sinew_all_gather_list(c, a, out_list, of_out, d, given, w));
      case 6: return check(sinew_reduce_scatter_list(c, in_list, b, of_in, d, op(), given, w));
      case 7: return check(sinew_all_to_all_list(c, in_list, of_in, out_list, of_out, d, given, w));
      case 8: return check(sinew_gather_list(c, a, n, out_list, of_out, d, root, given, w));
      default: return check(sinew_scatter_list(c, in_list, of_in, b, n, d, root, given, w));
    }
  }

  void messages() {
    const sinew_communicator c = communicator();
    std::byte* a = memory();
    std::byte* b = memory();
    const std::size_t n = count();
    const auto tag = static_cast<std::uint32_t>(in_.below(3));
    const int peer = rank();
    const sinew_call_options* given = options();
    sinew_work* w = work();
    int source = 0;
    std::array<sinew_message, 3> group{};
    for (sinew_message& m : group) {
      m = {in_.below(2), rank(), memory(), count(), tag, any<sinew_memory_kind>(3), 0, 0};
    }
    switch (in_.below(5)) {
      case 0: return check(sinew_send(c, a, n, peer, tag, given, w));
      case 1: return check(sinew_recv(c, a, n, peer, tag, given, w));
      case 2: return check(sinew_recv_any(c, a, n, tag, in_.below(2) == 0 ? nullptr : &source, given, w));
      case 3: return check(sinew_sendrecv(c, a, n, peer, tag, b, count(), peer, tag, given, w));
      default: return check(sinew_group(c, in_.below(8) == 0 ? nullptr : group.data(), in_.below(4), given, w));
    }
  }

  void works() {
    sinew_work* w = in_.below(12) == 0 ? nullptr : &works_.any(in_);
    int number = 0;
    switch (in_.below(9)) {
      case 0: return check(sinew_wait(w));
      case 1: return check(sinew_wait_for(w, seconds_to_wait()));
      case 2: return check(sinew_test(w));
      case 3: return check(sinew_wait_source(w, seconds_to_wait(), &number));
      case 4: return check(sinew_wait_all(works_.all.data(), works_.all.size(), seconds_to_wait()));
      case 5: return check(sinew_work_done(works_.passed(in_), &number));
      case 6: return check(sinew_work_order(works_.passed(in_), {nullptr, in_.below(3) - 1}, seconds_to_wait()));
      case 7: return check(sinew_work_then(works_.passed(in_), in_.below(8) == 0 ? nullptr : ignore, nullptr));
      default: return check(sinew_work_free(w));
    }
  }
  /// No wait is for ever.
  double seconds_to_wait() {
    const double s = seconds();
    return std::isinf(s) ? 0.002 : s;
  }

  void plans_and_memory() {
    std::array<char, 64> text;
    std::size_t size = 0;
    void* data = nullptr;
    const sinew_plan plan = plans_.passed(in_);
    switch (in_.below(7)) {
      case 0: {
        sinew_call_description description = SINEW_CALL_DESCRIPTION_INIT;
        description.collective = any<sinew_collective>(17);
        description.dtype = dtype();
        description.op = op();
        description.root = rank();
        description.count = count();
        description.counts = counts();
        description.displacements = in_.below(2) == 0 ? nullptr : counts();
        description.reduce = in_.below(2) == 0 ? nullptr : add;
        description.determinism = any<sinew_determinism>(3);
        description.codec = any<sinew_codec>(4);
        if (in_.below(12) == 0) description.struct_size = in_.word();
        return check(sinew_communicator_plan(communicator(), &description, target(plans_, sinew_plan_free)));
      }
      case 1: return check(sinew_plan_explain(plan, text.data(), in_.below(64), &size));
      case 2: return check(sinew_plan_json(plan, in_.below(4) == 0 ? nullptr : text.data(), text.size(), nullptr));
      case 3: return check(sinew_plan_free(&plans_.any(in_)));
      case 4: return check(sinew_run(communicator(), plan, memory(), memory(), options(), work()));
      case 5: return check(sinew_memory_get(memories_.passed(in_), &data, &size));
      default: return check(sinew_memory_free(&memories_.any(in_)));
    }
  }

  Reader& in_;
  Pool<sinew_world> worlds_;
  Pool<sinew_communicator> communicators_;
  Pool<sinew_work> works_;
  Pool<sinew_plan> plans_;
  Pool<sinew_memory> memories_;
  sinew_call_options options_{};
  sinew_stream stream_{};
  int mode_ = 0;
  std::size_t next_list_ = 0;
  static inline std::array<std::byte, 8192> arena_;
};

}  // namespace

/// Each input is a row of calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Reader in(data, size);
  Caller caller(in);
  for (int calls = 0; calls < 100 && !in.over(); ++calls) caller.call();
  return 0;
}
