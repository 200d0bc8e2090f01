/* Arithmetic of floating-point numbers that is rounded once, in any direction, and of those of 16 bits. */
#pragma once
#include <cfenv>
#include <cmath>

#include "types.h"

namespace ptx {

/* The direction of rounding while it lives: FE_TONEAREST and its like. */
class Rounding {
 public:
  explicit Rounding(int mode) : before(fegetround()) {
    if (mode != before) fesetround(mode);
  }
  ~Rounding() {
    if (fegetround() != before) fesetround(before);
  }
  Rounding(const Rounding &) = delete;
  Rounding &operator=(const Rounding &) = delete;

 private:
  int before;
};

double value_of(Half half);
double value_of(Brain brain);
inline float value_of(float value) { return value; }
inline double value_of(double value) { return value; }

/* The nearest number of a type in a direction; of a double that was rounded to odd, or not at all. */
template <class T>
T rounded(double value, int mode);
template <>
Half rounded<Half>(double value, int mode);
template <>
Brain rounded<Brain>(double value, int mode);
template <>
float rounded<float>(double value, int mode);
template <>
double rounded<double>(double value, int mode);

/* A whole number, in a direction. */
double whole(double value, int mode);

/* Numbers too small for the exponent of a float become zero, as .ftz has it. */
inline float flushed(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value; }

/* What a type is calculated in, and how a result gets back: types of 16 bits in a double, which loses nothing but, where it
   is not exact, its last bit; that is set then, so that rounding once more is right. */
template <class T>
struct Calculation {
  using Wide = T;
  template <class Do>
  static T done(int mode, Do &&calculate) {
    if (mode == FE_TONEAREST) return calculate();
    Rounding rounding(mode);
    volatile T value = calculate();
    return value;
  }
};

double to_odd(double (*calculate)(const void *), const void *with);

template <class T>
struct InDouble {
  using Wide = double;
  template <class Do>
  static T done(int mode, Do &&calculate) {
    return rounded<T>(to_odd([](const void *with) { return (*static_cast<const std::decay_t<Do> *>(with))(); }, &calculate), mode);
  }
};
template <>
struct Calculation<Half> : InDouble<Half> {};
template <>
struct Calculation<Brain> : InDouble<Brain> {};

}  // namespace ptx
