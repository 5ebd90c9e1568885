#!/usr/bin/env python3
"""Writes the reference tables of this folder with independent codes: colossus, CAMB, CLASS (by way of abacusutils), numpy.

    pip install colossus==1.4.0 camb==2.0.5 abacusutils==2.1.2 numpy
    pip download --no-deps --no-binary :all: abacusutils==2.1.2    # the CLASS spectra are in the sdist
    python make.py                                                  # with abacusutils' sdist installed

spectra.csv  linear P(k) in (Mpc/h)^3 at z = 0, k in h/Mpc, scaled to the sigma_8 of its row
growth.csv   D(z) / D(0) of flat universes without radiation, by colossus
painted.csv  P(k) of the points in `points()`, painted by cloud in cell on 16^3 cells
"""

import camb
import numpy as np
from colossus.cosmology import cosmology as colossus
from colossus.cosmology.power_spectrum import modelEisenstein98

K = np.geomspace(1e-3, 5.0, 12)
# omega_m, omega_b, h, n_s, sigma_8: a Planck-like universe and others up to the corners of the simulator's ranges.
CASES = [
    (0.3153, 0.0493, 0.6736, 0.9649, 0.80784),
    (0.3, 0.049, 0.7, 1.0, 0.8),
    (0.15, 0.049, 0.6, 0.9, 0.7),
    (0.5, 0.049, 0.9, 1.2, 1.0),
    (0.45, 0.049, 0.55, 0.85, 0.65),
    (0.2, 0.049, 0.85, 1.1, 0.9),
    (0.1, 0.049, 0.5, 0.8, 0.6),
]
# Cosmologies of AbacusSummit that are flat LambdaCDM with the usual neutrinos and no running, as different as there are.
CLASS = ["c016", "c131", "c132", "c134", "c135", "c137", "c139", "c144"]


def normalised(k, power, sigma_8):
    """`power` scaled to `sigma_8`, at K."""
    x = 8.0 * k
    window = np.where(x < 1e-2, 1 - x * x / 10, 3 * (np.sin(x) - x * np.cos(x)) / x**3)
    variance = np.trapezoid(k**3 * power * window**2, np.log(k)) / (2 * np.pi**2)
    return np.exp(np.interp(np.log(K), np.log(k), np.log(power))) * sigma_8**2 / variance


def by_colossus(omega_m, omega_b, h, n_s, sigma_8):
    # Not by way of colossus' interpolated spectrum, which is 1 % off where baryons are half of the matter.
    k = np.sort(np.concatenate([np.geomspace(1e-6, 1e2, 40000), K]))
    return normalised(k, k**n_s * modelEisenstein98(k, h, omega_m, omega_b, 2.7255) ** 2, sigma_8)


def growth(omega_m, z):
    model = colossus.Cosmology(name="case", flat=True, H0=70, Om0=omega_m, Ob0=0.049, sigma8=0.8, ns=1.0,
                               relspecies=False, persistence="")
    return model.growthFactor(z)


def by_camb(omega_m, omega_b, h, n_s, sigma_8):
    p = camb.set_params(H0=100 * h, ombh2=omega_b * h * h, omch2=(omega_m - omega_b) * h * h, mnu=0,
                        num_massive_neutrinos=0, nnu=3.046, omk=0, tau=0.06, As=2e-9, ns=n_s, TCMB=2.7255)
    p.set_matter_power(redshifts=[0.0], kmax=20.0)
    p.NonLinear = camb.model.NonLinear_none
    results = camb.get_results(p)
    spectrum = results.get_matter_power_interpolator(nonlinear=False)
    return np.array([spectrum.P(0, k) for k in K]) * (sigma_8 / results.get_sigma8_0()) ** 2


def by_class(name):
    from abacusnbody.metadata import get_meta
    meta = get_meta(f"AbacusSummit_base_{name}_ph000")
    table = meta["CLASS_power_spectrum"]
    k, power = np.array(table["k (h/Mpc)"]), np.array(table["P (Mpc/h)^3"])
    h = meta["H0"] / 100
    return (meta["Omega_M"], meta["omega_b"] / h**2, h, meta["n_s"], 0.8), normalised(k, power, 0.8)


def points():
    """3000 clustered points in the unit cube without a random number generator."""
    i = np.arange(3000)
    x = np.stack([i * 0.7548776662466927, i * 0.5698402909980532, i * 0.3819660112501051], axis=1)
    return (x + 0.06 * np.sin(2 * np.pi * np.roll(x, 1, axis=1) * np.array([1, 2, 3]))) % 1.0


def painted(n=16, box=100.0):
    """Cloud in cell by explicit sums over the cells' centres, and the spectrum in bins of 2 pi / L, window divided out."""
    density = np.zeros((n, n, n))
    for p in points() * n:
        overlap = []
        for q in p:
            distance = np.abs(np.arange(n) + 0.5 - q)
            overlap.append(np.maximum(0, 1 - np.minimum(distance, n - distance)))
        density += np.einsum("i,j,k->ijk", *overlap)
    delta = np.fft.fftn(density / density.mean() - 1) / n**3
    m = np.fft.fftfreq(n, 1 / n)
    mx, my, mz = np.meshgrid(m, m, m, indexing="ij")
    window = (np.sinc(mx / n) * np.sinc(my / n) * np.sinc(mz / n)) ** 2
    power = np.abs(delta / window) ** 2 * box**3
    length = np.sqrt(mx**2 + my**2 + mz**2)
    for b in range(1, n // 2):
        inside = (length >= b - 0.5) & (length < b + 0.5)
        yield b, inside.sum(), power[inside].mean()


with open("spectra.csv", "w") as out:
    print("code,omega_m,omega_b,h,n_s,sigma_8,k,power", file=out)
    rows = [("colossus", c, by_colossus(*c)) for c in CASES]
    rows += [("camb", c, by_camb(*c)) for c in CASES] + [("class", *by_class(name)) for name in CLASS]
    for code, cosmology, powers in rows:
        for k, power in zip(K, powers):
            print(code, *(f"{v:.6g}" for v in (*cosmology, k)), f"{power:.5e}", sep=",", file=out)

with open("growth.csv", "w") as out:
    print("omega_m,z,growth", file=out)
    for c in CASES:
        for z in (0.5, 1.0, 1.5, 3.0, 9.0, 49.0):
            print(c[0], z, f"{growth(c[0], z):.7f}", sep=",", file=out)

with open("painted.csv", "w") as out:
    print("bin,modes,power", file=out)
    for b, modes, power in painted():
        print(b, modes, f"{power:.9e}", sep=",", file=out)
