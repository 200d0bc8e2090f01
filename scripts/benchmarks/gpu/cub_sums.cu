// Sums by CUB, called from Python with pointers to memory of the GPU: of everything, of rows, and of columns, which are
// transposed first. Each function returns a CUDA error code, and returns when the sum is there.
#include <cub/cub.cuh>
#include <cstdint>

namespace {

constexpr int TILE = 32, LINES = 8;

__global__ void transposed(const float* from, float* to, int rows, int columns) {
  __shared__ float tile[TILE][TILE + 1];
  const int c = blockIdx.x * TILE + threadIdx.x;
  for (int k = threadIdx.y; k < TILE; k += LINES) {
    const int r = blockIdx.y * TILE + k;
    if (r < rows && c < columns) tile[k][threadIdx.x] = from[int64_t(r) * columns + c];
  }
  __syncthreads();
  const int to_c = blockIdx.y * TILE + threadIdx.x;
  for (int k = threadIdx.y; k < TILE; k += LINES) {
    const int to_r = blockIdx.x * TILE + k;
    if (to_r < columns && to_c < rows) to[int64_t(to_r) * rows + to_c] = tile[threadIdx.x][k];
  }
}

}  // namespace

extern "C" {

// The bytes of temporary memory that sums of `rows` rows need; of everything is one row.
int64_t temporary(int rows, int columns) {
  size_t whole = 0, segments = 0;
  const float* from = nullptr;
  float* to = nullptr;
  const int* starts = nullptr;
  cub::DeviceReduce::Sum(nullptr, whole, from, to, int64_t(rows) * columns);
  cub::DeviceSegmentedReduce::Sum(nullptr, segments, from, to, rows, starts, starts);
  return int64_t(whole > segments ? whole : segments) + 16;
}

int whole(void* temporary, int64_t bytes, const float* from, float* to, int64_t count) {
  size_t size = bytes;
  const cudaError_t code = cub::DeviceReduce::Sum(temporary, size, from, to, count);
  return code ? code : cudaDeviceSynchronize();
}

// `starts` has the first element of each row, and the end of the last one.
int of_rows(void* temporary, int64_t bytes, const float* from, float* to, int rows, const int* starts) {
  size_t size = bytes;
  const cudaError_t code = cub::DeviceSegmentedReduce::Sum(temporary, size, from, to, rows, starts, starts + 1);
  return code ? code : cudaDeviceSynchronize();
}

// `turned` has room for the transposed array; `starts` are those of the columns in it.
int of_columns(void* temporary, int64_t bytes, const float* from, float* turned, float* to, int rows, int columns,
               const int* starts) {
  const dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
  transposed<<<grid, dim3(TILE, LINES)>>>(from, turned, rows, columns);
  size_t size = bytes;
  const cudaError_t code = cub::DeviceSegmentedReduce::Sum(temporary, size, turned, to, columns, starts, starts + 1);
  return code ? code : cudaDeviceSynchronize();
}

}  // extern "C"
