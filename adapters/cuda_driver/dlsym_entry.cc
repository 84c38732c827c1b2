// The dlsym() of a program into which this library is preloaded. Names that do not begin with "cu"
// reach the real dlsym() by a jump, not a call, because dlsym(RTLD_NEXT, ...) identifies its caller
// by the return address. Works even before this library's constructors have run.

#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>

#include "lookup.h"

extern "C" {

// The address of the real dlsym(), read by the assembly below.
[[gnu::visibility("hidden"), gnu::used]] void* plimsoll_dlsym = nullptr;

[[gnu::visibility("hidden"), gnu::used]] void* plimsoll_find_dlsym() {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    void* found = dlvsym(RTLD_NEXT, "dlsym", version);
    if (found == nullptr) continue;
    __atomic_store_n(&plimsoll_dlsym, found, __ATOMIC_RELEASE);
    return found;
  }
  __builtin_trap();  // without glibc the program cannot work at all
}

struct Answer {
  std::uintptr_t is_ours;  // 0: forward to the real dlsym()
  void* address;
};

[[gnu::visibility("hidden"), gnu::used]] Answer plimsoll_answer_dlsym(void* handle,
                                                                      const char* name,
                                                                      void* caller) {
  using plimsoll::cuda_driver::answer_lookup;
  void* address = nullptr;
  const bool is_ours = answer_lookup(handle, name, caller, address);
  return {is_ours ? std::uintptr_t{1} : std::uintptr_t{0}, address};
}

}  // extern "C"

#if defined(__x86_64__)
asm(R"(
    .text
    .globl dlsym
    .type dlsym, @function
    .p2align 4
dlsym:
    .cfi_startproc
    endbr64
    testq %rsi, %rsi
    je 1f
    cmpb $'c', (%rsi)
    jne 1f
    cmpb $'u', 1(%rsi)
    jne 1f
    movq (%rsp), %rdx
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call plimsoll_answer_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax
    je 1f
    movq %rdx, %rax
    ret
1:  movq plimsoll_dlsym(%rip), %rax
    testq %rax, %rax
    je 2f
    jmp *%rax
2:  pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call plimsoll_find_dlsym
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlsym, .-dlsym
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl dlsym
    .type dlsym, %function
    .p2align 4
dlsym:
    .cfi_startproc
    hint #34
    cbz x1, 1f
    ldrb w2, [x1]
    cmp w2, #'c'
    b.ne 1f
    ldrb w2, [x1, #1]
    cmp w2, #'u'
    b.ne 1f
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    stp x0, x1, [sp, #16]
    mov x29, sp
    mov x2, x30
    bl plimsoll_answer_dlsym
    mov x9, x0
    mov x10, x1
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    cbz x9, 1f
    mov x0, x10
    ret
1:  adrp x16, plimsoll_dlsym
    ldr x16, [x16, :lo12:plimsoll_dlsym]
    cbz x16, 2f
    br x16
2:  stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    stp x0, x1, [sp, #16]
    mov x29, sp
    bl plimsoll_find_dlsym
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size dlsym, .-dlsym
)");
#else
#error "the preload library supports only x86-64 and aarch64"
#endif
