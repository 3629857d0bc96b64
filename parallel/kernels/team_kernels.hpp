#pragma once

#include <sinew/parallel/kernels/attention_kernels.hpp>
#include <sinew/parallel/kernels/element_kernels.hpp>
#include <sinew/parallel/kernels/loss_kernels.hpp>
#include <sinew/parallel/kernels/norm_kernels.hpp>
#include <sinew/parallel/kernels/row_kernels.hpp>
#include <sinew/parallel/kernels/update_kernels.hpp>

// Every kernel of the image. Kernels are functions of a Team (team.hpp).
//   one(kernel, T, Argument)               the kernel kernel<T>(team, argument)
//   two(kernel, First, Second, Argument)   the kernel kernel<First, Second>(team, argument)
// clang-format off
#define SINEW_DEVICE_KERNELS(one, two)                           \
  two(adam, double, double, AdamArguments)                       \
  two(adam, float, float, AdamArguments)                         \
  two(adam, BFloat16, BFloat16, AdamArguments)                   \
  two(adam, BFloat16, float, AdamArguments)                      \
  two(adam, Half, Half, AdamArguments)                           \
  two(adam, Half, float, AdamArguments)                          \
  two(sgd, double, double, SgdArguments)                         \
  two(sgd, float, float, SgdArguments)                           \
  two(sgd, BFloat16, BFloat16, SgdArguments)                     \
  two(sgd, BFloat16, float, SgdArguments)                        \
  two(sgd, Half, Half, SgdArguments)                             \
  two(sgd, Half, float, SgdArguments)                            \
  two(convert, float, BFloat16, ConvertArguments)                \
  two(convert, float, Half, ConvertArguments)                    \
  two(convert, double, float, ConvertArguments)                  \
  two(convert, BFloat16, float, ConvertArguments)                \
  two(convert, Half, float, ConvertArguments)                    \
  two(convert, float, double, ConvertArguments)                  \
  two(convert, BFloat16, double, ConvertArguments)               \
  two(convert, Half, double, ConvertArguments)                   \
  one(squares, double, SquaresArguments)                         \
  one(squares, float, SquaresArguments)                          \
  one(squares, BFloat16, SquaresArguments)                       \
  one(squares, Half, SquaresArguments)                           \
  SINEW_LAYER_KERNELS(one, two, float)                           \
  SINEW_LAYER_KERNELS(one, two, double)

// The kernels of LayerMath<T>.
#define SINEW_LAYER_KERNELS(one, two, T)                                            \
  two(round, BFloat16, T, RoundArguments)                                           \
  two(round, Half, T, RoundArguments)                                               \
  two(add_to, double, T, AddToArguments)                                            \
  two(add_to, float, T, AddToArguments)                                             \
  two(add_to, BFloat16, T, AddToArguments)                                          \
  two(add_to, Half, T, AddToArguments)                                              \
  one(fill, T, FillArguments<T>)                                                    \
  one(add, T, AddArguments<T>)                                                      \
  one(apply, T, ApplyArguments<T>)                                                  \
  one(apply_slope, T, ApplySlopeArguments<T>)                                       \
  one(drop, T, DropArguments<T>)                                                    \
  one(copy_rows, T, CopyRowsArguments<T>)                                           \
  one(add_rows, T, AddRowsArguments<T>)                                             \
  one(zero_rows, T, ZeroRowsArguments<T>)                                           \
  one(add_to_rows, T, AddToRowsArguments<T>)                                        \
  one(sum_rows, T, SumRowsArguments<T>)                                             \
  one(dot_rows, T, DotRowsArguments<T>)                                             \
  one(gather_rows, T, GatherRowsArguments<T>)                                       \
  one(scatter_rows, T, ScatterRowsArguments<T>)                                     \
  one(normalise, T, NormaliseArguments<T>)                                          \
  one(renormalise, T, RenormaliseArguments<T>)                                      \
  one(normalise_input_gradient, T, NormaliseInputGradientArguments<T>)              \
  one(normalise_weight_gradient, T, NormaliseWeightGradientArguments<T>)            \
  one(row_maxima, T, RowMaximaArguments<T>)                                         \
  one(exponentials, T, ExponentialsArguments<T>)                                    \
  one(divide_rows, T, DivideRowsArguments<T>)                                       \
  one(cross_entropy_gradient, T, CrossEntropyGradientArguments<T>)                  \
  one(attention_merge, T, AttentionMergeArguments<T>)                               \
  one(attention_weights, T, AttentionWeightsArguments<T>)                           \
  one(attention_slopes, T, AttentionSlopesArguments<T>)
// clang-format on
