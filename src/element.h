/*
 * element.h
 *		Conversion between float32 and the 16-bit element formats, one value at a
 *		time, in portable C.
 *
 * Both sides of engine.h include this: the type's input and output, and the
 * engines where no vector instruction does the same.  Rounding is to nearest,
 * ties to even.  A finite value too large for the format becomes infinity: the
 * caller checks.
 */
#ifndef MAXSIM_ELEMENT_H
#define MAXSIM_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t
maxsim_float_bits(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float
maxsim_float_from_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Neither NaN nor infinity. */
static inline bool
maxsim_is_finite(float value)
{
	return (maxsim_float_bits(value) & 0x7f800000) != 0x7f800000;
}

static inline bool
maxsim_f16_is_finite(uint16_t half)
{
	return (half & 0x7c00) != 0x7c00;
}

static inline bool
maxsim_bf16_is_finite(uint16_t brain)
{
	return (brain & 0x7f80) != 0x7f80;
}

static inline float
maxsim_f16_to_f32(uint16_t half)
{
	uint32_t sign = (uint32_t) (half & 0x8000) << 16;
	uint32_t magnitude = (uint32_t) (half & 0x7fff) << 13;

	if (magnitude >= 0x0f800000) /* infinity, NaN */
		return maxsim_float_from_bits(sign | 0x7f800000 | magnitude);

	/* the multiplication by 2^112 moves the exponent, subnormals included */
	return maxsim_float_from_bits(sign | maxsim_float_bits(maxsim_float_from_bits(magnitude) * 0x1p112f));
}

static inline uint16_t
maxsim_f16_from_f32(float value)
{
	uint32_t bits = maxsim_float_bits(value);
	uint32_t sign = (bits >> 16) & 0x8000;
	uint32_t magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000) /* NaN */
		return sign | 0x7e00;
	if (magnitude >= 0x477ff000) /* rounds to 65536 or more */
		return sign | 0x7c00;
	if (magnitude < 0x38800000) /* subnormal: adding 0.5 rounds to units of 2^-24 */
		return sign | (maxsim_float_bits(maxsim_float_from_bits(magnitude) + 0.5f) - 0x3f000000);
	magnitude += 0xfff + ((magnitude >> 13) & 1);
	return sign | ((magnitude - 0x38000000) >> 13);
}

static inline float
maxsim_bf16_to_f32(uint16_t brain)
{
	return maxsim_float_from_bits((uint32_t) brain << 16);
}

static inline uint16_t
maxsim_bf16_from_f32(float value)
{
	uint32_t bits = maxsim_float_bits(value);

	if ((bits & 0x7fffffff) > 0x7f800000) /* NaN */
		return (bits >> 16) | 0x40;
	return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

#endif /* MAXSIM_ELEMENT_H */
