#include "reals.h"

#include <algorithm>

namespace ptx {

namespace {

/* A format of 16 bits: of its significand so many are stored, and the exponent of its least normal number. */
struct Format {
  int stored, least;
  u16 infinity, most, no_number;
};
constexpr Format HALF = {10, -14, 0x7c00, 0x7bff, 0x7fff};
constexpr Format BRAIN = {7, -126, 0x7f80, 0x7f7f, 0x7fff};

double value(u16 bits, const Format &format) {
  const int exponents = format.infinity >> format.stored, exponent = bits >> format.stored & exponents;
  const int significand = bits & ((1 << format.stored) - 1), hidden = 1 << format.stored;
  double size;
  if (exponent == exponents)
    size = significand != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    size = std::ldexp(significand, format.least - format.stored);
  else
    size = std::ldexp(hidden + significand, exponent - 1 + format.least - format.stored);
  return bits >> 15 ? -size : size;
}

/* The size is counted in units of the last place: whole ones, and a rest that decides. */
u16 nearest(double value, int mode, const Format &format) {
  if (value != value) return format.no_number;
  const bool negative = std::signbit(value);
  const u16 sign = negative ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isinf(size)) return sign | format.infinity;
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), format.least);
  const double units = std::ldexp(size, format.stored - exponent), whole = std::floor(units), rest = units - whole;
  const bool away = mode == FE_TONEAREST  ? rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)
                    : mode == FE_UPWARD   ? rest > 0 && !negative
                    : mode == FE_DOWNWARD ? rest > 0 && negative
                                          : false;
  /* a carry out of the significand goes into the exponent, as it should */
  const u64 bits = u64(exponent - format.least) * (u64(1) << format.stored) + u64(whole) + away;
  if (bits < format.infinity) return sign | u16(bits);
  const bool stays = mode == FE_TOWARDZERO || (mode == FE_UPWARD && negative) || (mode == FE_DOWNWARD && !negative);
  return sign | (stays ? format.most : format.infinity);
}

}  // namespace

double value_of(Half half) { return value(half.bits, HALF); }
double value_of(Brain brain) { return value(brain.bits, BRAIN); }

template <>
Half rounded<Half>(double value, int mode) {
  return {nearest(value, mode, HALF)};
}
template <>
Brain rounded<Brain>(double value, int mode) {
  return {nearest(value, mode, BRAIN)};
}
template <>
float rounded<float>(double value, int mode) {
  Rounding rounding(mode);
  volatile double given = value;
  volatile float result = float(given);
  return result;
}
template <>
double rounded<double>(double value, int) {
  return value;
}

double whole(double value, int mode) {
  switch (mode) {
    case FE_DOWNWARD: return std::floor(value);
    case FE_UPWARD: return std::ceil(value);
    case FE_TOWARDZERO: return std::trunc(value);
    default: return std::nearbyint(value);
  }
}

double to_odd(double (*calculate)(const void *), const void *with) {
  Rounding rounding(FE_TOWARDZERO);
  feclearexcept(FE_INEXACT);
  volatile double value = calculate(with);
  if (!fetestexcept(FE_INEXACT) || value != value || std::isinf(value)) return value;
  return from_bits<double>(to_bits(double(value)) | 1);
}

}  // namespace ptx
