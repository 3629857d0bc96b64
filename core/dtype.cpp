#include <sinew/core/base/names.hpp>
#include <sinew/core/dtype.hpp>

namespace sinew {
namespace {

constexpr Spelling<DType> kDTypeNames[] = {
    {"i8", DType::I8},
    {"u8", DType::U8},
    {"i32", DType::I32},
    {"u32", DType::U32},
    {"i64", DType::I64},
    {"u64", DType::U64},
    {"f16", DType::F16},
    {"bf16", DType::BF16},
    {"f32", DType::F32},
    {"f64", DType::F64},
    {"f8e4m3", DType::F8E4M3},
    {"f8e5m2", DType::F8E5M2},
    {"bool", DType::Bool},
    {"i16", DType::I16},
    {"u16", DType::U16},
    {"int16", DType::I16},
    {"uint16", DType::U16},
    {"int8", DType::I8},
    {"char", DType::I8},
    {"uint8", DType::U8},
    {"byte", DType::U8},
    {"int32", DType::I32},
    {"int", DType::I32},
    {"uint32", DType::U32},
    {"int64", DType::I64},
    {"uint64", DType::U64},
    {"half", DType::F16},
    {"fp16", DType::F16},
    {"fp32", DType::F32},
    {"fp64", DType::F64},
    {"float16", DType::F16},
    {"bfloat16", DType::BF16},
    {"float", DType::F32},
    {"float32", DType::F32},
    {"double", DType::F64},
    {"float64", DType::F64},
    {"fp8_e4m3", DType::F8E4M3},
    {"fp8_e5m2", DType::F8E5M2},
    {"f8_e4m3", DType::F8E4M3},
    {"f8_e5m2", DType::F8E5M2},
    {"float8_e4m3", DType::F8E4M3},
    {"float8_e5m2", DType::F8E5M2},
};

constexpr DType kAll[kDTypeCount] = {DType::Bool, DType::I8,  DType::U8,  DType::I16,    DType::U16,
                                     DType::I32,  DType::U32, DType::I64, DType::U64,    DType::F16,
                                     DType::BF16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2};

}  // namespace

std::string_view name_of(DType t) noexcept { return find_name(kDTypeNames, t); }

std::optional<DType> dtype_from_name(std::string_view name) noexcept { return find_value(kDTypeNames, name); }

std::span<const DType> all_dtypes() noexcept { return kAll; }

}  // namespace sinew
