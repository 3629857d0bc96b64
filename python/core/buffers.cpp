#include "buffers.hpp"

#include <nanobind/ndarray.h>

#include <array>
#include <utility>

#include <fmt/format.h>

#include "errors.hpp"
#include "python.hpp"

namespace sinew::python {
namespace {

struct Name {
  std::string_view name;
  Element element;
};

constexpr std::array<Name, 17> kNames{{{"bool", {DType::Bool}},
                                       {"int8", {DType::I8}},
                                       {"int16", {DType::I16}},
                                       {"int32", {DType::I32}},
                                       {"int64", {DType::I64}},
                                       {"uint8", {DType::U8}},
                                       {"uint16", {DType::U16}},
                                       {"uint32", {DType::U32}},
                                       {"uint64", {DType::U64}},
                                       {"float16", {DType::F16}},
                                       {"bfloat16", {DType::BF16}},
                                       {"float32", {DType::F32}},
                                       {"float64", {DType::F64}},
                                       {"float8_e4m3fn", {DType::F8E4M3}},
                                       {"float8_e5m2", {DType::F8E5M2}},
                                       {"complex64", {DType::F32, 2}},
                                       {"complex128", {DType::F64, 2}}}};

constexpr const char* kExpectedDTypes =
    "expected bool, int8 to int64, uint8 to uint64, float16 to float64, bfloat16, float8_e4m3fn, float8_e5m2, "
    "complex64 "
    "or complex128";

std::optional<Element> find_name(std::string_view name) noexcept {
  for (const Name& n : kNames) {
    if (n.name == name) return n.element;
  }
  return std::nullopt;
}

/// Nothing for widths that no dtype has, such as 3 bytes.
constexpr std::optional<Element> whole(bool is_signed, Py_ssize_t bytes) noexcept {
  switch (bytes) {
    case 1: return Element{is_signed ? DType::I8 : DType::U8};
    case 2: return Element{is_signed ? DType::I16 : DType::U16};
    case 4: return Element{is_signed ? DType::I32 : DType::U32};
    case 8: return Element{is_signed ? DType::I64 : DType::U64};
    default: return std::nullopt;
  }
}

/// The element of a format of the module struct, as the buffer protocol gives it.
std::optional<Element> element_of_format(const char* format, Py_ssize_t itemsize) noexcept {
  if (format == nullptr) return Element{DType::U8};
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 'Z' && format[1] != 0 && format[2] == 0) {
    if (format[1] == 'f') return Element{DType::F32, 2};
    if (format[1] == 'd') return Element{DType::F64, 2};
    return std::nullopt;
  }
  if (format[0] == 0 || format[1] != 0) return std::nullopt;
  switch (format[0]) {
    case '?': return Element{DType::Bool};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return whole(true, itemsize);
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return whole(false, itemsize);
    case 'e': return Element{DType::F16};
    case 'f': return Element{DType::F32};
    case 'd': return Element{DType::F64};
    default: return std::nullopt;
  }
}

/// True if the elements of a format have pointers to objects of Python. Names of fields stand between colons.
bool has_objects(const char* format) noexcept {
  bool in_name = false;
  for (; format != nullptr && *format != 0; ++format) {
    if (*format == ':') in_name = !in_name;
    if (*format == 'O' && !in_name) return true;
  }
  return false;
}

std::optional<Element> element_of_dlpack(nb::dlpack::dtype t) noexcept {
  using enum nb::dlpack::dtype_code;
  if (t.lanes != 1) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(t.code)) {
    case Bool: return t.bits == 8 ? std::optional(Element{DType::Bool}) : std::nullopt;
    case Int: return t.bits % 8 == 0 ? whole(true, t.bits / 8) : std::nullopt;
    case UInt: return t.bits % 8 == 0 ? whole(false, t.bits / 8) : std::nullopt;
    case Float:
      if (t.bits == 16) return Element{DType::F16};
      if (t.bits == 32) return Element{DType::F32};
      if (t.bits == 64) return Element{DType::F64};
      return std::nullopt;
    case Bfloat: return t.bits == 16 ? std::optional(Element{DType::BF16}) : std::nullopt;
    case Complex:
      if (t.bits == 64) return Element{DType::F32, 2};
      if (t.bits == 128) return Element{DType::F64, 2};
      return std::nullopt;
    case Float8_E4M3FN: return Element{DType::F8E4M3};
    case Float8_E5M2: return Element{DType::F8E5M2};
    default: return std::nullopt;
  }
}

std::string name_of_type(nb::handle object) { return nb::cast<std::string>(nb::type_name(object.type())); }

/// The attribute, or a null object. Other exceptions than AttributeError do not pass either.
nb::object attribute(nb::handle object, const char* name) {
  PyObject* found = PyObject_GetAttrString(object.ptr(), name);
  if (found == nullptr) PyErr_Clear();
  return nb::steal(found);
}

/// The name of a dtype, such as "bfloat16". Dtypes of NumPy have the attribute `name`, and types of NumPy elements have
/// `__name__`. For a dtype of PyTorch the name is the text that it prints, such as "torch.bfloat16".
std::string name_of_dtype(nb::handle dtype) {
  const nb::object name = attribute(dtype, PyType_Check(dtype.ptr()) ? "__name__" : "name");
  return nb::cast<std::string>(name && PyUnicode_Check(name.ptr()) ? nb::str(name) : nb::str(dtype));
}

/// The name of the object's dtype. Empty: it has none.
std::string dtype_name(nb::handle object) {
  const nb::object dtype = attribute(object, "dtype");
  return dtype ? name_of_dtype(dtype) : std::string();
}

/// True for a dtype of NumPy whose elements have the bytes in the other order than this machine.
bool has_other_byte_order(nb::handle dtype) {
  const nb::object is_native = attribute(dtype, "isnative");
  return is_native && is_native.is(nb::handle(Py_False));
}

}  // namespace

Element element_of_dtype(std::string_view call, nb::handle dtype) {
  const std::string name = name_of_dtype(dtype);
  if (has_other_byte_order(dtype))
    reject(call, fmt::format("dtype {} has the other byte order than this machine", name));
  constexpr std::string_view kOfTorch = "torch.";
  std::string_view plain = name;
  if (plain.starts_with(kOfTorch)) plain.remove_prefix(kOfTorch.size());
  if (plain.ends_with('_')) plain.remove_suffix(1);  // numpy.bool_ has that name before NumPy 2
  if (const auto element = find_name(plain)) return *element;
  if (const auto own = dtype_from_name(plain)) return {*own};
  reject(call, fmt::format("dtype is '{}', {}", name, kExpectedDTypes));
}

const char* numpy_name(DType dtype) noexcept {
  for (const Name& n : kNames) {
    if (n.element == Element{dtype}) return n.name.data();
  }
  return "uint8";
}

Exported::Exported(Exported&& other) noexcept
    : memory_(other.memory_),
      element_(other.element_),
      reason_(std::move(other.reason_)),
      view_(std::exchange(other.view_, Py_buffer{})),
      owner_(std::move(other.owner_)) {}

Exported& Exported::operator=(Exported&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(element_, other.element_);
  std::swap(reason_, other.reason_);
  std::swap(view_, other.view_);
  std::swap(owner_, other.owner_);
  return *this;
}

Exported::~Exported() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

Element Exported::element() const {
  if (element_) [[likely]]
    return *element_;
  throw Error(Code::InvalidArgument, reason_);
}

/// Makes an Exported by the ways in which objects of Python show their memory.
class Exporter {
 public:
  Exporter(Argument argument, nb::handle object, bool writes) : argument_(argument), object_(object), writes_(writes) {}

  Exported make() {
    if (!PyObject_CheckBuffer(object_.ptr())) return by_dlpack();
    Exported result;
    if (PyObject_GetBuffer(object_.ptr(), &result.view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      result.view_ = {};
      return without_format();
    }
    take(result, element_of_format(result.view_.format, result.view_.itemsize));
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    reject(argument_.call, fmt::format("{} {}", argument_.name, why));
  }
  [[noreturn]] void refuse_strides() const {
    refuse("does not lie in memory as one piece in C order; pass numpy.ascontiguousarray of it");
  }
  [[noreturn]] void refuse_read_only() const { refuse("is read-only, but the call writes to it"); }

  void take(Exported& result, std::optional<Element> element) const {
    const Py_buffer& view = result.view_;
    // Their pointers mean nothing to another rank, and no reference is counted where they are written.
    if (!element && has_objects(view.format)) refuse("has objects of Python; comm.objects sends such");
    if (writes_ && view.readonly != 0) refuse_read_only();
    if (PyBuffer_IsContiguous(&view, 'C') == 0) refuse_strides();
    result.memory_ = {static_cast<std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
    name_element(result, element, view.format == nullptr ? "B" : view.format);
  }

  void name_element(Exported& result, std::optional<Element> element, const std::string& shown) const {
    result.element_ = element;
    if (element) [[likely]]
      return;
    const std::string name = dtype_name(object_);
    const nb::object dtype = attribute(object_, "dtype");
    const char* const expected = dtype && has_other_byte_order(dtype)
                                     ? "whose byte order is not this machine's; pass a copy in native byte order"
                                     : kExpectedDTypes;
    result.reason_ =
        fmt::format("{}: {} has dtype {}, {}", argument_.call, argument_.name, name.empty() ? shown : name, expected);
  }

  /// NumPy gives no format for dtypes of ml_dtypes, and none for dates. A view of the same memory has a format.
  Exported without_format() {
    const std::string why = take_error_text();
    const std::string name = dtype_name(object_);
    const auto element = find_name(name);
    Exported result;
    if (const nb::object bytes = name.empty() ? nb::object() : view_of_bytes()) {
      if (PyObject_GetBuffer(bytes.ptr(), &result.view_, PyBUF_STRIDES | PyBUF_FORMAT) == 0) {
        take(result, element);
        return result;
      }
      result.view_ = {};
      PyErr_Clear();
    }
    if (!name.empty() && !element) refuse(fmt::format("has dtype {}, {}", name, kExpectedDTypes));
    if (attribute(object_, "__dlpack__")) return by_dlpack();
    refuse(fmt::format("is a {} that shows no memory: {}", name_of_type(object_), why));
  }

  /// NumPy's view of the array as elements without a meaning. Null if there is none, as of an array with objects.
  nb::object view_of_bytes() const {
    const nb::object dtype = attribute(object_, "dtype");
    const nb::object bytes = dtype ? attribute(dtype, "itemsize") : nb::object();
    if (!bytes || PyLong_Check(bytes.ptr()) == 0) return {};
    PyObject* view = PyObject_CallMethod(object_.ptr(), "view", "N", PyUnicode_FromFormat("V%S", bytes.ptr()));
    if (view == nullptr) PyErr_Clear();
    return nb::steal(view);
  }

  Exported by_dlpack() const {
    if (!attribute(object_, "__dlpack__"))
      refuse(fmt::format("is a {}, expected an array: an object with the buffer protocol or with __dlpack__",
                         name_of_type(object_)));
    return writes_ ? from_dlpack<nb::ndarray<>>() : from_dlpack<nb::ndarray<nb::ro>>();
  }

  template <class Array>
  Exported from_dlpack() const {
    const nb::object capsule = dlpack_capsule();
    Array array;
    if (!nb::try_cast(capsule, array, false)) {
      PyErr_Clear();
      if (writes_) refuse_read_only();
      refuse(fmt::format("is a {} whose DLPack capsule cannot be read", name_of_type(object_)));
    }
    const std::int64_t elements = count_elements(array);
    std::int64_t next = 1;
    for (std::size_t i = elements > 0 ? array.ndim() : 0; i-- > 0;) {
      const auto extent = static_cast<std::int64_t>(array.shape(i));
      if (extent != 1 && array.stride(i) != next) refuse_strides();
      next *= extent;
    }
    Exported result;
    const int type = array.device_type();
    if (type == nb::device::cuda::value || type == nb::device::cuda_managed::value) {
      result.memory_.place = {MemoryKind::Device, array.device_id()};
    } else if (type == nb::device::cuda_host::value) {
      result.memory_.place = {MemoryKind::PinnedHost, array.device_id()};
    } else if (type != nb::device::cpu::value) {
      refuse(fmt::format("lies on a device of DLPack's type {}, expected the host or a CUDA device", type));
    }
    result.memory_.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
    result.memory_.bytes = array.nbytes();
    const nb::dlpack::dtype t = array.dtype();
    name_element(result, element_of_dlpack(t), fmt::format("of DLPack's code {} with {} bits", t.code, t.bits));
    result.owner_ = std::make_shared<Array>(std::move(array));
    return result;
  }

  /// Errors: InvalidArgument for a shape that no memory has. Producers may give any numbers.
  std::int64_t count_elements(const auto& array) const {
    std::int64_t elements = 1;
    bool fits = true;
    for (std::size_t i = 0; i < array.ndim(); ++i) {
      const auto extent = static_cast<std::int64_t>(array.shape(i));
      fits =
          fits && extent >= 0 && !__builtin_mul_overflow(elements, extent, &elements) && elements <= PTRDIFF_MAX / 16;
    }
    if (!fits) refuse("has a shape in DLPack that no memory has");
    return elements;
  }

  /// The capsule of the object's __dlpack__. For a call that writes, the kind with a version is asked for first: only
  /// this kind tells whether the memory is read-only. Some producers know only one of the two kinds.
  nb::object dlpack_capsule() const {
    nb::object capsule = call_dlpack(writes_);
    if (!capsule && (PyErr_ExceptionMatches(PyExc_BufferError) != 0 || PyErr_ExceptionMatches(PyExc_TypeError) != 0)) {
      PyErr_Clear();
      capsule = call_dlpack(!writes_);
    }
    if (!capsule) refuse(fmt::format("is a {} that shows no memory: {}", name_of_type(object_), take_error_text()));
    if (PyCapsule_CheckExact(capsule.ptr()) == 0)
      refuse(fmt::format("is a {} whose __dlpack__ returned a {}, expected a capsule", name_of_type(object_),
                         name_of_type(capsule)));
    // nanobind takes the capsule itself, and not the object, because it marks only such a capsule as used.
    const char* name = PyCapsule_GetName(capsule.ptr());
    const std::string_view kind = name == nullptr ? "" : name;
    if (kind != "dltensor" && kind != "dltensor_versioned")
      refuse(
          fmt::format("is a {} whose __dlpack__ returned a capsule '{}', expected 'dltensor' or "
                      "'dltensor_versioned': a capsule can be used once",
                      name_of_type(object_), kind));
    return capsule;
  }

  /// Calls the object's __dlpack__. If that raises an exception, the result is null and the exception stays set.
  nb::object call_dlpack(bool versioned) const {
    static PyObject* const method = PyUnicode_InternFromString("__dlpack__");
    static PyObject* const names = Py_BuildValue("(s)", "max_version");
    static PyObject* const version = Py_BuildValue("(ii)", 1, 1);
    PyObject* const arguments[] = {object_.ptr(), version};
    return nb::steal(PyObject_VectorcallMethod(method, arguments, 1, versioned ? names : nullptr));
  }

  Argument argument_;
  nb::handle object_;
  bool writes_;
};

Exported exported(Argument argument, nb::handle object, bool writes) {
  return Exporter(argument, object, writes).make();
}

bool is_list(nb::handle object) noexcept { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }

std::vector<Exported> exported_list(Argument argument, nb::handle list, bool writes) {
  std::vector<Exported> result;
  for (const nb::handle each : list) {
    const std::string name = fmt::format("{}[{}]", argument.name, result.size());
    result.push_back(exported({argument.call, name.c_str()}, each, writes));
  }
  return result;
}

std::vector<std::uint64_t> whole_numbers(Argument argument, nb::handle numbers, std::uint32_t lanes) {
  std::vector<std::uint64_t> result;
  if (numbers.is_none()) return result;
  const nb::object iterator = nb::steal(PyObject_GetIter(numbers.ptr()));
  if (!iterator) {
    PyErr_Clear();
    reject(argument.call,
           fmt::format("{} is a {}, expected whole numbers, one per rank", argument.name, name_of_type(numbers)));
  }
  while (const nb::object next = nb::steal(PyIter_Next(iterator.ptr()))) {
    const nb::object number = nb::steal(PyNumber_Index(next.ptr()));
    const unsigned long long value = number ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      reject(argument.call, fmt::format("{}[{}] is {}, expected a whole number from 0 on", argument.name, result.size(),
                                        nb::cast<std::string>(nb::repr(next))));
    }
    if (value > PTRDIFF_MAX / 16)
      reject(argument.call,
             fmt::format("{}[{}] is {}, more than an address space has", argument.name, result.size(), value));
    result.push_back(value * lanes);
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return result;
}

}  // namespace sinew::python
