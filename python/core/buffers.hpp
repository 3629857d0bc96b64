#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/schedule/parts.hpp>
#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>

#include "python.hpp"

namespace sinew::python {

/// The elements of an array, as sinew calls them. A complex number is two floats.
struct Element {
  DType dtype = DType::U8;
  std::uint32_t lanes = 1;
  friend bool operator==(const Element&, const Element&) = default;
};

/// The element of a name such as "float32", "bfloat16" or "complex64". The names of sinew are taken, too. An object
/// with such a name may be given instead: a dtype of NumPy, ml_dtypes or PyTorch, or the type of a NumPy element.
/// Errors: InvalidArgument, which lists the names.
Element element_of_dtype(std::string_view call, nb::handle dtype);
/// The name that NumPy or ml_dtypes gives this dtype.
const char* numpy_name(DType dtype) noexcept;

/// The memory of an array of Python, which stays where it is as long as this object lives.
/// Thread: made and destroyed with Python's lock.
class Exported {
 public:
  Exported() noexcept = default;
  Exported(Exported&& other) noexcept;
  Exported& operator=(Exported&& other) noexcept;
  ~Exported();

  const Buffer& memory() const noexcept { return memory_; }
  /// Errors: InvalidArgument if the array's dtype is none of sinew's. Messages carry such arrays, too.
  Element element() const;

 private:
  friend class Exporter;

  Buffer memory_{};
  std::optional<Element> element_;
  std::string reason_;           ///< of a dtype that is none of sinew's
  Py_buffer view_{};             ///< its `obj` is null where the memory is not exported by the buffer protocol
  std::shared_ptr<void> owner_;  ///< keeps the memory otherwise
};

/// The name of a call and of one of its arguments, for errors.
struct Argument {
  const char* call;
  const char* name;
};

/// The memory of `object`: through the buffer protocol, or else DLPack. Nothing is copied.
/// Cost:   about 0.1 us for an array of NumPy.
/// Errors: InvalidArgument if the object has no memory of one piece, or if it is read-only and `writes` is set.
Exported exported(Argument argument, nb::handle object, bool writes);

/// An array for each rank, as a list or a tuple has them.
bool is_list(nb::handle object) noexcept;
std::vector<Exported> exported_list(Argument argument, nb::handle list, bool writes);

/// Counts or displacements: whole numbers from 0 on. None gives an empty list.
std::vector<std::uint64_t> whole_numbers(Argument argument, nb::handle numbers, std::uint32_t lanes);

}  // namespace sinew::python
