"""Forecasts of the past: do they come true?"""
