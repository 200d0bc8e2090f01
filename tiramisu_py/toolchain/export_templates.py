"""The texts of an exported library's build files. ``@NAME@`` and the like are replaced; see `export`."""

from __future__ import annotations

#: The first line of an exported Makefile, by which a folder of an earlier export is recognised.
MARK = "# lib@NAME@: exported by tiramisu_py"

MAKEFILE = (
    MARK
    + r"""
#
#   make                  builds lib@NAME@.so and lib@NAME@.a
#   make install          into PREFIX (default /usr/local)
#   make CC=@OTHER_CC@ CFLAGS=-O2@EXAMPLE@ OPENMP=

@CC@AR      ?= ar
CFLAGS  ?= @CFLAGS@
PREFIX  ?= /usr/local

# The processor; empty for any of this kind.
ifeq ($(origin ARCH),undefined)
ARCH    := @ARCH@
endif
# Vectors as wide as those of the sources, where the compiler prefers others unless it is told.
VECTORS := @VECTORS@
# OpenMP where the compiler has it; without it loops run on one thread.
ifeq ($(origin OPENMP),undefined)
OPENMP  := @OPENMP@
endif
# What the meaning of the code rests on.
STRICT  := @STRICT@

SOURCES := @SOURCES@
HEADERS := @HEADERS@
OBJECTS := $(SOURCES:.c=.o)

all: lib@NAME@.so lib@NAME@.a

%.o: %.c $(HEADERS)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(ARCH) $(VECTORS)@VERSION@ $(STRICT) $(OPENMP) -c $< -o $@
@VERSIONS@
lib@NAME@.so: $(OBJECTS)
	rm -f $@
	$(CC) $(CFLAGS) $(ARCH) $(VECTORS) $(OPENMP) -shared @SONAME@ $(LDFLAGS) -o $@ $^ @LIBRARIES@

lib@NAME@.a: $(OBJECTS)
	rm -f $@
	$(AR) rcs $@ $^

install: all
	mkdir -p $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/cmake/@NAME@
	cp @INTERFACE@ $(DESTDIR)$(PREFIX)/include
	cp lib@NAME@.so lib@NAME@.a@BESIDE@ $(DESTDIR)$(PREFIX)/lib
	sed -e 's|^prefix=.*|prefix=$${pcfiledir}/../..|' -e 's|^libdir=.*|libdir=$${prefix}/lib|' \
	-e 's|^includedir=.*|includedir=$${prefix}/include|' @NAME@.pc > $(DESTDIR)$(PREFIX)/lib/pkgconfig/@NAME@.pc
	cp @NAME@-config.cmake $(DESTDIR)$(PREFIX)/lib/cmake/@NAME@

@IMAGES@clean:
	rm -f $(OBJECTS) lib@NAME@.so lib@NAME@.a

.PHONY: all install clean
"""
)

PLAIN_CC = "CC      ?= cc\n"
#: Make's default CC has no MPI.
MPI_CC = """ifeq ($(origin CC),default)
CC      := mpicc
endif
"""

OPENMP_IF_THERE = (
    "$(shell echo 'int probe(void) { return 0; }' > .openmp.c; "
    "$(CC) -fopenmp -fPIC -shared .openmp.c -o .openmp.so 2> /dev/null && echo -fopenmp; rm -f .openmp.c .openmp.so)"
)
NATIVE_IF_THERE = "$(shell echo | $(CC) -march=native -E - > /dev/null 2>&1 && echo -march=native)"
#: The processor of one version of a function.
VERSION_FLAGS = "@NAME@.o: VERSION := @FLAGS@@WIDTH@\n"
WIDTH_IF_THERE = "$(shell echo | $(CC) $(ARCH) @WIDTH@ -E - > /dev/null 2>&1 && echo @WIDTH@)"
TOGETHER_IF_THERE = "$(shell echo | $(CC) @TOGETHER@ -E - > /dev/null 2>&1 && echo @TOGETHER@)"

PKG_CONFIG = """prefix=${pcfiledir}
libdir=${prefix}
includedir=${prefix}

Name: @NAME@
Description: @PROTOTYPE@
Version: 1.0.0
Libs: -L${libdir} -Wl,-rpath,${libdir} -l@NAME@
Libs.private: @PRIVATE@
Cflags: -I${includedir}
"""

CMAKE = """# find_package(@NAME@) gives the targets @NAME@::@NAME@ (shared) and @NAME@::static.

@FIND_MPI@set(_@NAME@_include "${CMAKE_CURRENT_LIST_DIR}")
set(_@NAME@_lib "${CMAKE_CURRENT_LIST_DIR}")
if(NOT EXISTS "${_@NAME@_include}/@NAME@.h") # installed: this file is in <prefix>/lib/cmake/@NAME@
  get_filename_component(_@NAME@_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
  get_filename_component(_@NAME@_include "${_@NAME@_lib}/../include" ABSOLUTE)
endif()

if(NOT TARGET @NAME@::@NAME@)
  add_library(@NAME@::@NAME@ SHARED IMPORTED)
  set_target_properties(@NAME@::@NAME@ PROPERTIES
    IMPORTED_LOCATION "${_@NAME@_lib}/lib@NAME@.so"
    IMPORTED_SONAME "lib@NAME@.so"@LINK_MPI@
    INTERFACE_INCLUDE_DIRECTORIES "${_@NAME@_include}")
  add_library(@NAME@::static STATIC IMPORTED)
  set_target_properties(@NAME@::static PROPERTIES
    IMPORTED_LOCATION "${_@NAME@_lib}/lib@NAME@.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_INCLUDE_DIRECTORIES "${_@NAME@_include}"
    INTERFACE_LINK_LIBRARIES "@PRIVATE_LIST@@STATIC_MPI@")
endif()
"""

FIND_MPI = """include(CMakeFindDependencyMacro)
find_dependency(MPI COMPONENTS C)
"""
LINK_MPI = """
    INTERFACE_LINK_LIBRARIES MPI::MPI_C"""

README = """# @NAME@

    @PROTOTYPE@
    const char *@NAME@_last_error(void);

`@NAME@` returns 0, or an error code, which `@NAME@_last_error()` says in words (one for each thread). Sizes come first;
arrays are contiguous in row-major order, unless the header gives the places of their elements, and outputs may not
overlap other arguments. It can be called from several
threads.

@CHOICE@The libraries here were built for @PROCESSOR@ by
`@COMPILER@`.
To build them again for your machine, from these sources alone:

    make clean all

@REBUILT@To use them:

    @CALLED_CC@ main.c -I. -L. -l@NAME@ -Wl,-rpath,. -o main               # shared
    @CALLED_CC@ main.c -I. lib@NAME@.a @PRIVATE@ -o main                   # static
    @CALLED_CC@ main.c $(PKG_CONFIG_PATH=$PWD pkg-config --cflags --libs @NAME@) -o main

or in CMake, with `@NAME@_DIR` set to this folder (or after `make install`):

    find_package(@NAME@ REQUIRED)
    target_link_libraries(main PRIVATE @NAME@::@NAME@)

@GPU@@MPI@The code was generated by tiramisu_py.
"""

CHOICE = """There are versions for @LISTED@, the best one first.
The first call asks the processor for its instruction sets, and chooses the first version that these allow;
`const char *@NAME@_version(void)` returns its name. The environment variable TIRAMISU_VERSION names one of them: those
before it are left out.

"""

IMAGES = r"""# Compiles the kernels again, with nvcc; then: make all
NVCC      ?= nvcc
NVCCFLAGS ?= @NVCCFLAGS@
.PHONY: images
images:
"""
IMAGE = r"""	$(NVCC) -@KIND@ -arch=@ARCHITECTURE@ $(NVCCFLAGS) -I. @NAME@.cu -o @NAME@.@KIND@
	od -An -v -tx1 @NAME@.@KIND@ | sed -e 's/ *\([0-9a-f][0-9a-f]\)/\\x\1/g' -e 's/ *$$//' -e 's/.*/"&"/' > @FILE@
	rm -f @NAME@.@KIND@
"""

GPU_README = """## GPU

The kernels are part of the libraries, compiled for @ARCHITECTURES@ by
`@CUDA@`.
Only a C compiler is needed to build the libraries again; `make images` compiles the kernels again, with nvcc. The CUDA
driver is opened when the function is called: where there is none, it returns 101. `@NAME@_use_device(1)` makes the
calls of a thread run on GPU 1 instead of 0.

"""

MPI_README = """## MPI

All ranks of the communicator call the function, each with its own part of the arrays; every rank returns the same code.
It sends messages on a communicator of its own, which the first call duplicates. A failure
after the first message is printed, and ends the program with MPI_Abort.
A rank that does not come to a call is waited for for 600 s, or as the environment's TIRAMISU_PATIENCE says in seconds
(0: for ever); the others then return 9, and @NAME@_last_error() names it.

    mpirun -n 4 ./main

The libraries here were built for `@MPI_VERSION@`. For another MPI: make clean all CC=/path/to/its/mpicc

"""

SIMULATED_README = """## Simulated GPU

The function runs its kernels on a simulated GPU, for tests. The libraries libtm_simulator.so and
lib@NAME@_simulated.so must lie beside lib@NAME@.so, or beside a program that is linked with lib@NAME@.a. The
environment variable TM_SIMULATOR says how the simulation goes, for example `TM_SIMULATOR="seed=7 devices=4"`.

"""
