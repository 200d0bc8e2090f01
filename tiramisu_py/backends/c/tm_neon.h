/* Operations for which AArch64 processors have an instruction: a table of TM_OWN_<operation>_<type> and
 * TM_OWN_<type>_to_<bits>x<lanes>, whose operands are a and b. See tm_idioms.h.
 */
#ifndef TM_NEON_H
#define TM_NEON_H

#include <arm_neon.h>

/* Vectors of 4 or 2 bytes at the low end of one of 8. */
#define TM_NEON_4(a) vcreate_u8((uint32_t)(a))
#define TM_NEON_2(a) vcreate_u8((uint16_t)(a))
#define TM_NEON_TO_4(a) vget_lane_u32(vreinterpret_u32_u8(a), 0)
#define TM_NEON_TO_2(a) vget_lane_u16(vreinterpret_u16_u8(a), 0)

/* 16-bit floats */
#define TM_OWN_float16_to_float32x4 ~, vcvt_f32_f16((float16x4_t)a)
#define TM_OWN_float32_to_float16x4 ~, vcvt_f16_f32((float32x4_t)a)
#define TM_OWN_bfloat16_to_float32x4 ~, vshll_n_u16((uint16x4_t)a, 16)

/* minimum and maximum, the distance of two integers */
#define TM_OWN_min_uint8x16 ~, vminq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_min_uint8x8 ~, vmin_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_min_int8x16 ~, vminq_s8((int8x16_t)a, (int8x16_t)b)
#define TM_OWN_min_int8x8 ~, vmin_s8((int8x8_t)a, (int8x8_t)b)
#define TM_OWN_min_uint16x8 ~, vminq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_min_uint16x4 ~, vmin_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_min_int16x8 ~, vminq_s16((int16x8_t)a, (int16x8_t)b)
#define TM_OWN_min_int16x4 ~, vmin_s16((int16x4_t)a, (int16x4_t)b)
#define TM_OWN_min_uint32x4 ~, vminq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_min_uint32x2 ~, vmin_u32((uint32x2_t)a, (uint32x2_t)b)
#define TM_OWN_min_int32x4 ~, vminq_s32((int32x4_t)a, (int32x4_t)b)
#define TM_OWN_min_int32x2 ~, vmin_s32((int32x2_t)a, (int32x2_t)b)
#define TM_OWN_max_uint8x16 ~, vmaxq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_max_uint8x8 ~, vmax_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_max_int8x16 ~, vmaxq_s8((int8x16_t)a, (int8x16_t)b)
#define TM_OWN_max_int8x8 ~, vmax_s8((int8x8_t)a, (int8x8_t)b)
#define TM_OWN_max_uint16x8 ~, vmaxq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_max_uint16x4 ~, vmax_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_max_int16x8 ~, vmaxq_s16((int16x8_t)a, (int16x8_t)b)
#define TM_OWN_max_int16x4 ~, vmax_s16((int16x4_t)a, (int16x4_t)b)
#define TM_OWN_max_uint32x4 ~, vmaxq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_max_uint32x2 ~, vmax_u32((uint32x2_t)a, (uint32x2_t)b)
#define TM_OWN_max_int32x4 ~, vmaxq_s32((int32x4_t)a, (int32x4_t)b)
#define TM_OWN_max_int32x2 ~, vmax_s32((int32x2_t)a, (int32x2_t)b)
#define TM_OWN_min_uint64x2 ~, vbslq_u64(vcltq_u64((uint64x2_t)a, (uint64x2_t)b), (uint64x2_t)a, (uint64x2_t)b)
#define TM_OWN_min_int64x2 ~, vbslq_s64(vcltq_s64((int64x2_t)a, (int64x2_t)b), (int64x2_t)a, (int64x2_t)b)
#define TM_OWN_max_uint64x2 ~, vbslq_u64(vcgtq_u64((uint64x2_t)a, (uint64x2_t)b), (uint64x2_t)a, (uint64x2_t)b)
#define TM_OWN_max_int64x2 ~, vbslq_s64(vcgtq_s64((int64x2_t)a, (int64x2_t)b), (int64x2_t)a, (int64x2_t)b)
#define TM_OWN_distance_uint8x16 ~, vabdq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_distance_uint8x8 ~, vabd_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_distance_int8x16 ~, vabdq_s8((int8x16_t)a, (int8x16_t)b)
#define TM_OWN_distance_int8x8 ~, vabd_s8((int8x8_t)a, (int8x8_t)b)
#define TM_OWN_distance_uint16x8 ~, vabdq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_distance_uint16x4 ~, vabd_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_distance_int16x8 ~, vabdq_s16((int16x8_t)a, (int16x8_t)b)
#define TM_OWN_distance_int16x4 ~, vabd_s16((int16x4_t)a, (int16x4_t)b)
#define TM_OWN_distance_uint32x4 ~, vabdq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_distance_uint32x2 ~, vabd_u32((uint32x2_t)a, (uint32x2_t)b)
#define TM_OWN_distance_int32x4 ~, vabdq_s32((int32x4_t)a, (int32x4_t)b)
#define TM_OWN_distance_int32x2 ~, vabd_s32((int32x2_t)a, (int32x2_t)b)

/* Of floats, a NaN wins, and of equal operands the second: the instructions take -0 for less than +0. */
#define TM_NEON_END(q, than, bits, T) \
  vbsl##q##_f##bits(vorn##q##_u##bits(vc##than##q##_f##bits((T)a, (T)b), vceq##q##_f##bits((T)a, (T)a)), (T)a, (T)b)
#define TM_OWN_min_float32x4 ~, TM_NEON_END(q, lt, 32, float32x4_t)
#define TM_OWN_max_float32x4 ~, TM_NEON_END(q, gt, 32, float32x4_t)
#define TM_OWN_min_float32x2 ~, TM_NEON_END(, lt, 32, float32x2_t)
#define TM_OWN_max_float32x2 ~, TM_NEON_END(, gt, 32, float32x2_t)
#define TM_OWN_min_float64x2 ~, TM_NEON_END(q, lt, 64, float64x2_t)
#define TM_OWN_max_float64x2 ~, TM_NEON_END(q, gt, 64, float64x2_t)
#define TM_NEON_CHOSEN(q, than, bits, T) vbsl##q##_f##bits(vc##than##q##_f##bits((T)a, (T)b), (T)a, (T)b)
#define TM_OWN_less_float32x4 ~, TM_NEON_CHOSEN(q, lt, 32, float32x4_t)
#define TM_OWN_more_float32x4 ~, TM_NEON_CHOSEN(q, gt, 32, float32x4_t)
#define TM_OWN_less_float32x2 ~, TM_NEON_CHOSEN(, lt, 32, float32x2_t)
#define TM_OWN_more_float32x2 ~, TM_NEON_CHOSEN(, gt, 32, float32x2_t)
#define TM_OWN_less_float64x2 ~, TM_NEON_CHOSEN(q, lt, 64, float64x2_t)
#define TM_OWN_more_float64x2 ~, TM_NEON_CHOSEN(q, gt, 64, float64x2_t)

/* sums and differences that stay within the type; means */
#define TM_OWN_add_saturated_uint8x16 ~, vqaddq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_add_saturated_uint8x8 ~, vqadd_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_add_saturated_int8x16 ~, vqaddq_s8((int8x16_t)a, (int8x16_t)b)
#define TM_OWN_add_saturated_int8x8 ~, vqadd_s8((int8x8_t)a, (int8x8_t)b)
#define TM_OWN_add_saturated_uint16x8 ~, vqaddq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_add_saturated_uint16x4 ~, vqadd_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_add_saturated_int16x8 ~, vqaddq_s16((int16x8_t)a, (int16x8_t)b)
#define TM_OWN_add_saturated_int16x4 ~, vqadd_s16((int16x4_t)a, (int16x4_t)b)
#define TM_OWN_add_saturated_uint32x4 ~, vqaddq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_add_saturated_uint32x2 ~, vqadd_u32((uint32x2_t)a, (uint32x2_t)b)
#define TM_OWN_add_saturated_int32x4 ~, vqaddq_s32((int32x4_t)a, (int32x4_t)b)
#define TM_OWN_add_saturated_int32x2 ~, vqadd_s32((int32x2_t)a, (int32x2_t)b)
#define TM_OWN_add_saturated_uint64x2 ~, vqaddq_u64((uint64x2_t)a, (uint64x2_t)b)
#define TM_OWN_add_saturated_int64x2 ~, vqaddq_s64((int64x2_t)a, (int64x2_t)b)
#define TM_OWN_subtract_saturated_uint8x16 ~, vqsubq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_subtract_saturated_uint8x8 ~, vqsub_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_subtract_saturated_int8x16 ~, vqsubq_s8((int8x16_t)a, (int8x16_t)b)
#define TM_OWN_subtract_saturated_int8x8 ~, vqsub_s8((int8x8_t)a, (int8x8_t)b)
#define TM_OWN_subtract_saturated_uint16x8 ~, vqsubq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_subtract_saturated_uint16x4 ~, vqsub_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_subtract_saturated_int16x8 ~, vqsubq_s16((int16x8_t)a, (int16x8_t)b)
#define TM_OWN_subtract_saturated_int16x4 ~, vqsub_s16((int16x4_t)a, (int16x4_t)b)
#define TM_OWN_subtract_saturated_uint32x4 ~, vqsubq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_subtract_saturated_uint32x2 ~, vqsub_u32((uint32x2_t)a, (uint32x2_t)b)
#define TM_OWN_subtract_saturated_int32x4 ~, vqsubq_s32((int32x4_t)a, (int32x4_t)b)
#define TM_OWN_subtract_saturated_int32x2 ~, vqsub_s32((int32x2_t)a, (int32x2_t)b)
#define TM_OWN_subtract_saturated_uint64x2 ~, vqsubq_u64((uint64x2_t)a, (uint64x2_t)b)
#define TM_OWN_subtract_saturated_int64x2 ~, vqsubq_s64((int64x2_t)a, (int64x2_t)b)
#define TM_OWN_average_uint8x16 ~, vrhaddq_u8((uint8x16_t)a, (uint8x16_t)b)
#define TM_OWN_average_uint8x8 ~, vrhadd_u8((uint8x8_t)a, (uint8x8_t)b)
#define TM_OWN_average_uint16x8 ~, vrhaddq_u16((uint16x8_t)a, (uint16x8_t)b)
#define TM_OWN_average_uint16x4 ~, vrhadd_u16((uint16x4_t)a, (uint16x4_t)b)
#define TM_OWN_average_uint32x4 ~, vrhaddq_u32((uint32x4_t)a, (uint32x4_t)b)
#define TM_OWN_average_uint32x2 ~, vrhadd_u32((uint32x2_t)a, (uint32x2_t)b)

/* to twice, four and eight times the width */
#define TM_OWN_uint8_to_16x8 ~, vmovl_u8((uint8x8_t)a)
#define TM_OWN_uint8_to_16x4 ~, vget_low_u16(vmovl_u8(TM_NEON_4(a)))
#define TM_OWN_uint8_to_32x4 ~, vmovl_u16(vget_low_u16(vmovl_u8(TM_NEON_4(a))))
#define TM_OWN_uint8_to_64x2 ~, vmovl_u32(vget_low_u32(vmovl_u16(vget_low_u16(vmovl_u8(TM_NEON_2(a))))))
#define TM_OWN_uint16_to_32x4 ~, vmovl_u16((uint16x4_t)a)
#define TM_OWN_uint16_to_32x2 ~, vget_low_u32(vmovl_u16(vreinterpret_u16_u8(TM_NEON_4(a))))
#define TM_OWN_uint16_to_64x2 ~, vmovl_u32(vget_low_u32(vmovl_u16(vreinterpret_u16_u8(TM_NEON_4(a)))))
#define TM_OWN_uint32_to_64x2 ~, vmovl_u32((uint32x2_t)a)
#define TM_OWN_uint32_to_float64x2 ~, vcvtq_f64_u64(vmovl_u32((uint32x2_t)a))
#define TM_OWN_int8_to_16x8 ~, vmovl_s8((int8x8_t)a)
#define TM_OWN_int8_to_16x4 ~, vget_low_s16(vmovl_s8(vreinterpret_s8_u8(TM_NEON_4(a))))
#define TM_OWN_int8_to_32x4 ~, vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(TM_NEON_4(a)))))
#define TM_OWN_int8_to_64x2 ~, \
  vmovl_s32(vget_low_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(TM_NEON_2(a)))))))
#define TM_OWN_int16_to_32x4 ~, vmovl_s16((int16x4_t)a)
#define TM_OWN_int16_to_32x2 ~, vget_low_s32(vmovl_s16(vreinterpret_s16_u8(TM_NEON_4(a))))
#define TM_OWN_int16_to_64x2 ~, vmovl_s32(vget_low_s32(vmovl_s16(vreinterpret_s16_u8(TM_NEON_4(a)))))
#define TM_OWN_int32_to_64x2 ~, vmovl_s32((int32x2_t)a)
#define TM_OWN_int32_to_float64x2 ~, vcvtq_f64_s64(vmovl_s32((int32x2_t)a))
#define TM_OWN_float32_to_float64x2 ~, vcvt_f64_f32((float32x2_t)a)

/* Bytes that are 2, 3 or 4 apart, in wider lanes: two loads, the second of which ends with the last of them, and a
 * lookup, which makes 0 of what is no place.
 */
TM_SHUFFLE uint8x8_t tm_neon_bytes(const uint8_t *place, int size) {
  uint32_t four;
  if (size == 8) return vld1_u8(place);
  memcpy(&four, place, sizeof four);
  return vcreate_u8(four);
}
TM_SHUFFLE uint8x16_t tm_neon_strided_4(const uint8_t *place, int stride) {
  typedef int32_t places __attribute__((vector_size(16)));
  const places lane = {0, 1, 2, 3};
  const int all = 3 * stride + 1, size = all < 8 ? 4 : 8;
  const places from = lane * stride + (lane >> 1) * (8 + size - all);
  const uint8x16_t both = vcombine_u8(tm_neon_bytes(place, size), tm_neon_bytes(place + all - size, size));
  return vqtbl1q_u8(both, (uint8x16_t)(from | (int32_t)0x80808000));
}
TM_SHUFFLE uint8x16_t tm_neon_strided_8(const uint8_t *place, int stride) {
  typedef int16_t places __attribute__((vector_size(16)));
  const places lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const int all = 7 * stride + 1, size = all < 16 ? 8 : 16;
  const places from = lane * (int16_t)stride + (lane >> 2) * (int16_t)(2 * size - all);
  const uint8x16_t at = (uint8x16_t)(from | INT16_MIN);
  if (size == 8) return vqtbl1q_u8(vcombine_u8(vld1_u8(place), vld1_u8(place + all - size)), at);
  return vqtbl2q_u8((uint8x16x2_t){{vld1q_u8(place), vld1q_u8(place + all - size)}}, at);
}
#define TM_OWN_strided_uint8_to_32x4 ~, tm_neon_strided_4((const uint8_t *)place, stride)
#define TM_OWN_strided_uint8_to_16x8 ~, tm_neon_strided_8((const uint8_t *)place, stride)

/* to a half, a quarter and an eighth, the upper bits dropped */
#define TM_OWN_16_to_8x8 ~, vmovn_u16((uint16x8_t)a)
#define TM_OWN_32_to_16x4 ~, vmovn_u32((uint32x4_t)a)
#define TM_OWN_64_to_32x2 ~, vmovn_u64((uint64x2_t)a)
#define TM_OWN_16_to_8x4 ~, TM_NEON_TO_4(vmovn_u16(vcombine_u16((uint16x4_t)a, (uint16x4_t)a)))
#define TM_OWN_32_to_8x4 ~, TM_NEON_TO_4(vuzp1_u8(vreinterpret_u8_u16(vmovn_u32((uint32x4_t)a)), vdup_n_u8(0)))
#define TM_OWN_32_to_16x2 ~, TM_NEON_TO_4(vreinterpret_u8_u16(vuzp1_u16((uint16x4_t)a, (uint16x4_t)a)))
#define TM_OWN_64_to_16x2 ~, \
  TM_NEON_TO_4(vreinterpret_u8_u16(vuzp1_u16(vreinterpret_u16_u32(vmovn_u64((uint64x2_t)a)), vdup_n_u16(0))))

/* to a narrower type, the ends of which stand for what it does not hold; bits that are 1 */
#define TM_OWN_saturated_int16_to_int8x8 ~, vqmovn_s16((int16x8_t)a)
#define TM_OWN_saturated_uint16_to_uint8x8 ~, vqmovn_u16((uint16x8_t)a)
#define TM_OWN_saturated_int16_to_uint8x8 ~, vqmovun_s16((int16x8_t)a)
#define TM_OWN_saturated_int32_to_int16x4 ~, vqmovn_s32((int32x4_t)a)
#define TM_OWN_saturated_uint32_to_uint16x4 ~, vqmovn_u32((uint32x4_t)a)
#define TM_OWN_saturated_int32_to_uint16x4 ~, vqmovun_s32((int32x4_t)a)
#define TM_OWN_saturated_int64_to_int32x2 ~, vqmovn_s64((int64x2_t)a)
#define TM_OWN_saturated_uint64_to_uint32x2 ~, vqmovn_u64((uint64x2_t)a)
#define TM_OWN_saturated_int64_to_uint32x2 ~, vqmovun_s64((int64x2_t)a)
#define TM_OWN_popcount_int8x16 ~, vcntq_u8((uint8x16_t)a)
#define TM_OWN_popcount_int8x8 ~, vcnt_u8((uint8x8_t)a)
#define TM_OWN_popcount_int16x8 ~, vpaddlq_u8(vcntq_u8((uint8x16_t)a))
#define TM_OWN_popcount_int32x4 ~, vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t)a)))
#define TM_OWN_popcount_int64x2 ~, vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t)a))))
#define TM_OWN_popcount_uint8x16 ~, vcntq_u8((uint8x16_t)a)
#define TM_OWN_popcount_uint8x8 ~, vcnt_u8((uint8x8_t)a)
#define TM_OWN_popcount_uint16x8 ~, vpaddlq_u8(vcntq_u8((uint8x16_t)a))
#define TM_OWN_popcount_uint32x4 ~, vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t)a)))
#define TM_OWN_popcount_uint64x2 ~, vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t)a))))

/* Sums of four products of bytes. Where no instruction multiplies bytes without a sign by bytes with one, 128 less makes
 * the former signed, and the products with 128 are added again.
 */
#ifdef __ARM_FEATURE_DOTPROD
TM_SHUFFLE int32x4_t tm_quads_of_signed(int32x4_t sum, uint8x16_t a, uint8x16_t b) {
  return vdotq_s32(sum, vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
}
TM_SHUFFLE int32x4_t tm_quads_of_both(int32x4_t sum, uint8x16_t without, uint8x16_t with) {
#ifdef __ARM_FEATURE_MATMUL_INT8
  return vusdotq_s32(sum, without, vreinterpretq_s8_u8(with));
#else
  const uint8x16_t top = vdupq_n_u8(0x80);
  return vsubq_s32(tm_quads_of_signed(sum, veorq_u8(without, top), with),
                   tm_quads_of_signed(vdupq_n_s32(0), top, with));
#endif
}
TM_SHUFFLE int32x4_t tm_quads(int32x4_t sum, const void *shared, const void *spread, int a_signed, int b_signed) {
  int32_t four;
  memcpy(&four, shared, sizeof four);
  const uint8x16_t a = vreinterpretq_u8_s32(vdupq_n_s32(four)), b = vld1q_u8((const uint8_t *)spread);
  if (a_signed && b_signed) return tm_quads_of_signed(sum, a, b);
  if (a_signed) return tm_quads_of_both(sum, b, a);
  if (b_signed) return tm_quads_of_both(sum, a, b);
  return vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(sum), a, b));
}
#define TM_OWN_quads_4 ~, tm_quads((int32x4_t)sum, shared, spread, shared_signed, spread_signed)
#endif

#endif
